// Rate limiters on one Redis.
import { WRITES } from './limiting.ts';
import { limits, limitsOfKinds } from './limits.ts';
import { limitsWaiting } from './limits-waiting.ts';
import { openStage } from './stage.ts';

const stage = await openStage(WRITES);
limits(stage);
limitsOfKinds(stage);
limitsWaiting(stage);
