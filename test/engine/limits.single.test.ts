// Rate limiters on one Redis.
import { limits } from './limits.ts';
import { openStage } from './stage.ts';

limits(await openStage());
