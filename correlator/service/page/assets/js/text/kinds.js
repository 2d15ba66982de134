// Kinds of events in words, and the shape that stands for each.

const KINDS = {
  attribution: "verdict",
  xid: "kernel record (XID)",
  sxid: "kernel record (SXID)",
  aer: "PCIe record",
  ib_port: "port transition",
  log: "log line",
  kernel: "kernel record",
  job: "scheduler record",
  health: "health change",
};
export const kindName = (kind) => KINDS[kind] ?? String(kind).replaceAll("_", " ");

/** Records as they came from a machine: shown in its own letters. */
export const isRaw = (kind) => ["xid", "sxid", "aer", "kernel", "log", "ib_port", "check"].includes(kind);

const ICONS = { attribution: "verdict", action: "action", signal: "signal", log: "log" };
export const iconOf = ({ kind, event }) => ICONS[kind] ?? (kind === "health" ? (event?.data?.state ?? "unknown") : "raw");
