// Nothing runs for half an hour, and for three: of the ticks that schedules missed those of the last hour are made up for, each once.
import { startKillableRedis } from '../../test/engine/killable-redis.ts';
import { until } from '../../test/helpers/redis.ts';
import { makeClock } from '../lib/clock.ts';
import type { Fault } from '../lib/fault.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const RUNS_MS_MAX = 60_000;
const SETTLED_MS = 3_000;

function downtime(hours: number, name: string): Fault {
  return {
    row: 26,
    name,
    what: `nothing runs for ${name}, with a schedule a minute and one an hour`,
    async run(scene) {
      const clock = makeClock();
      const redis = await startKillableRedis({ keeps: 'second', env: clock.env });
      const first = await scene.engine({ redis_url: redis.url });
      const schedule = async (path: string, cron: string): Promise<void> => {
        const body = { cron, timezone: 'UTC', task_template: { target: scene.receiver.at(path) } };
        const { status, text } = await scene.client().ask('POST', '/v1/schedules', { body });
        scene.check(status === 201, `a schedule was refused: ${text}`);
      };
      await schedule('/minute', '* * * * *');
      await schedule('/hour', '30 * * * *');
      scene.begins();
      scene.forget(first);
      await first.stop();
      const stopped_ms = Date.now();
      const away_ms = hours * HOUR_MS;
      clock.set(away_ms);
      await scene.engine({ redis_url: redis.url, env: clock.env });
      scene.over();
      const back_ms = stopped_ms + away_ms;
      // What was created ahead of its time before the stop runs as well, and what is due since.
      const ticks = (every_ms: number, offset_ms: number): number[] => {
        const all: number[] = [];
        for (let at = Math.ceil((stopped_ms - offset_ms) / every_ms) * every_ms + offset_ms; at <= back_ms; at += every_ms) all.push(at);
        return all;
      };
      const hourAgo_ms = back_ms - HOUR_MS;
      const minutes = ticks(MINUTE_MS, 0);
      const wanted = minutes.filter((at) => at > hourAgo_ms).length;
      await until(() => scene.receiver.to('/minute').length >= wanted, RUNS_MS_MAX, `${wanted} runs`);
      await scene.lasts(SETTLED_MS);
      const runs = scene.receiver.to('/minute').length;
      const hourly = scene.receiver.to('/hour').length;
      const hours_wanted = ticks(HOUR_MS, 30 * MINUTE_MS).filter((at) => at > hourAgo_ms).length;
      scene.figure('minutes_missed', minutes.length);
      scene.figure('runs', runs);
      scene.figure('hourly_runs', hourly);
      // Those that were made ahead of their time, by the lead of 5 minutes, may be older than an hour; one more tick may have come.
      scene.check(runs >= wanted && runs <= wanted + 7, `${runs} runs where ${wanted} ticks were missed in the last hour`);
      scene.check(hourly >= hours_wanted && hourly <= hours_wanted + 1, `${hourly} hourly runs, ${hours_wanted} wanted`);
      const ids = new Set(scene.receiver.calls.map(({ id }) => id));
      scene.check(ids.size === scene.receiver.calls.length, 'a run was called twice');
      return scene.judge({ duplicates_max: 0 }, { ours: (id) => !ids.has(id) });
    },
  };
}

export const downtimes: readonly Fault[] = [downtime(0.5, 'half an hour'), downtime(3, 'three hours')];
