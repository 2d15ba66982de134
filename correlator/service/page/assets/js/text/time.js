// Times and durations as people read them. Everything is UTC, as in the logs that it is compared with.

const TWO = (n) => String(n).padStart(2, "0");

/** RFC 3339 to milliseconds, with the fraction kept; null for what is no time. */
export function ms(text) {
  if (!text) return null;
  const whole = Date.parse(text);
  if (Number.isNaN(whole)) return null;
  const fraction = /\.(\d+)/.exec(text);
  return fraction ? Math.floor(whole / 1000) * 1000 + Number(`0.${fraction[1]}`) * 1000 : whole;
}

/** 14:03:22, or with so many decimals of a second. */
export function clock(at, decimals = 0) {
  const d = new Date(Math.floor(at));
  const second = TWO(d.getUTCSeconds());
  const fraction = decimals ? (((at % 1000) + 1000) % 1000 / 1000).toFixed(6).slice(1, 2 + decimals) : "";
  return `${TWO(d.getUTCHours())}:${TWO(d.getUTCMinutes())}:${second}${fraction}`;
}

export function day(at) {
  return new Date(at).toISOString().slice(0, 10);
}

/** Date and time in full, to the microsecond that the wire carries. */
export const full = (at) => `${day(at)} ${clock(at, 6)} UTC`;

/** 820 ms, 7.52 s, 3 min 05 s, 2 h 14 min, 3 d 4 h. */
export function duration(s) {
  if (s == null || !Number.isFinite(s)) return "–";
  const sign = s < 0 ? "−" : "";
  const a = Math.abs(s);
  if (a === 0) return "0 s";
  if (a < 0.001) return `${sign}${(a * 1e6).toFixed(0)} µs`;
  if (a < 1) return `${sign}${trim((a * 1000).toPrecision(3))} ms`;
  if (a < 60) return `${sign}${trim(a.toFixed(a < 10 ? 2 : 1))} s`;
  const t = Math.round(a);
  if (t < 3600) return sign + two(Math.floor(t / 60), "min", TWO(t % 60), "s");
  const m = Math.round(a / 60);
  if (m < 1440) return sign + two(Math.floor(m / 60), "h", TWO(m % 60), "min");
  const h = Math.round(a / 3600);
  return sign + two(Math.floor(h / 24), "d", h % 24, "h");
}

const two = (n, unit, rest, small) => (Number(rest) ? `${n} ${unit} ${rest} ${small}` : `${n} ${unit}`);

/** The largest unit only: 7 s, 3 min, 2 h, 5 d. */
export function age(s) {
  const a = Math.max(0, s);
  if (a < 60) return `${Math.floor(a)} s`;
  if (a < 3600) return `${Math.floor(a / 60)} min`;
  if (a < 172_800) return `${Math.floor(a / 3600)} h`;
  return `${Math.floor(a / 86_400)} d`;
}

/** Seconds since an origin, signed, as precise as the axis needs. */
export function offset(s, step) {
  const decimals = step >= 1 ? 0 : Math.min(6, Math.ceil(-Math.log10(step) - 1e-9));
  if (Math.abs(s) < step / 2) return "0";
  const sign = s < 0 ? "−" : "+";
  const a = Math.abs(s);
  if (step >= 3600) return `${sign}${trim((a / 3600).toFixed(1))} h`;
  if (step >= 60) return `${sign}${trim((a / 60).toFixed(1))} min`;
  if (a >= 120 && decimals === 0) {
    const t = Math.round(a);
    return `${sign}${Math.floor(t / 60)}:${TWO(t % 60)}`;
  }
  return `${sign}${a.toFixed(decimals)} s`;
}

const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900,
  1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800];

/** Round tick positions between two times (ms), about `wanted` of them, counted from `origin`. */
export function ticks(from, to, wanted, origin = 0) {
  const ideal = (to - from) / 1000 / Math.max(1, wanted);
  const step = STEPS.find((s) => s >= ideal) ?? STEPS.at(-1);
  const at = [];
  const first = Math.ceil((from - origin) / 1000 / step - 1e-9);
  for (let i = first; i * step * 1000 + origin <= to + 1e-6 && at.length < 200; i++) at.push(origin + i * step * 1000);
  return { step, at };
}
