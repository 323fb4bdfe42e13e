// Rate limiters on one Redis.
import { limits } from './limits.ts';
import { limitsWaiting } from './limits-waiting.ts';
import { openStage } from './stage.ts';

const stage = await openStage();
limits(stage);
limitsWaiting(stage);
