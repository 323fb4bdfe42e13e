// A live line chart: uPlot, fed with the last few minutes, in the colours of the page.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';

export interface Series {
  label: string;
  /** A colour of styles.css: `--blue`. */
  color: string;
}

export interface ChartProps {
  title: string;
  series: readonly Series[];
  /** Times in seconds since the epoch, then the values of each series. */
  data: readonly (readonly (number | null)[])[];
  format(value: number): string;
  /** The least that the scale shows, so that an idle hour is a line at the bottom and no noise. */
  top_min: number;
  /** How times are written, as uPlot has it. */
  clock?: string;
}

const HEIGHT = 150;
/** What is shown of time at least: of one reading alone uPlot makes a day. */
const SPAN_S_MIN = 30;
const CLOCK = '{HH}:{mm}:{ss}';

export function Chart({ title, series, data, format, top_min, clock = CLOCK }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shown = useRef(format);
  shown.current = format;
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const style = getComputedStyle(element);
    const color = (name: string): string => style.getPropertyValue(name).trim();
    const axis = { stroke: color('--faint'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui' };
    const chart = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        cursor: { y: false, drag: { x: false } },
        legend: { live: true, markers: { width: 0, fill: (_, i) => color(series[i - 1]?.color ?? '--line') } },
        scales: {
          x: { range: ({ data: [times] }) => spanOf(times) },
          y: { range: (_, __, max) => [0, Math.max(max * 1.1, top_min)] },
        },
        axes: [
          { ...axis, values: clock, space: 70, size: 30 },
          { ...axis, size: 58, values: (_, values) => values.map((value) => shown.current(value)) },
        ],
        series: [
          { label: '', value: (plot, _, __, at) => (at === null ? 'now' : uPlot.fmtDate(clock)(new Date((plot.data[0][at] ?? 0) * 1000))) },
          ...series.map((one) => ({
            label: one.label,
            stroke: color(one.color),
            width: 2,
            points: { show: false },
            // Where nobody points at a time, the legend tells of now.
            value: (plot: uPlot, _: number | null, i: number, at: number | null) => {
              const value = at === null ? plot.data[i]?.at(-1) : plot.data[i]?.[at];
              return value === null || value === undefined ? '–' : shown.current(value);
            },
          })),
        ],
      },
      [[]],
      element,
    );
    plot.current = chart;
    const resize = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.setData(data as uPlot.AlignedData), [data]);
  const last = series.map(({ label }, i) => `${label} ${format(data[i + 1]?.at(-1) ?? 0)}`).join(', ');
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={place} role="img" aria-label={`${title}: now ${last}`} />
    </figure>
  );
}

function spanOf(times: ArrayLike<number>): [from_s: number, to_s: number] {
  const to_s = times[times.length - 1] ?? SPAN_S_MIN;
  return [Math.min(times[0] ?? to_s, to_s - SPAN_S_MIN), to_s];
}
