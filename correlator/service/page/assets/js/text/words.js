// Names of the contract in plain words. A name that stands in no table is shown as it is.

const plain = (name) => String(name ?? "").replaceAll("_", " ");

const SIGNALS = {
  port_outage: "port outage",
  port_downtime: "port downtime",
  port_flapping: "port flapping",
  nvlink_down: "NVLink down",
  nvlink_errors: "NVLink errors",
  nvswitch_fatal: "NVSwitch fatal error",
  throttle: "throttled clocks",
  xid_critical: "critical XID",
  xid_repeated: "repeated XID",
  aer_uncorrectable: "uncorrectable PCIe error",
  aer_correctable_rate: "correctable PCIe errors",
  thermal_gradient: "hotter than its neighbours",
  thermal_margin: "thermal margin used up",
  ecc_uncorrectable: "uncorrectable ECC error",
  memory_repair: "memory repair pending",
  remap_exhausted: "row remapping exhausted",
  pcie_downgrade: "PCIe link downgraded",
  gpu_lost: "GPU lost",
  node_silent: "node silent",
  clock_skew: "clock skew",
  collector_degraded: "collector degraded",
  event_loss: "events lost",
  fabric_state: "fabric state",
  node_coverage: "coverage",
};
export const signalName = (name) => SIGNALS[name] ?? plain(name);

export const STATES = ["quarantined", "draining", "suspect", "validating", "retired", "unknown", "healthy"];
/** The worst first, which is the order in which people want to see them. */
export const stateRank = (state) => {
  const rank = STATES.indexOf(state);
  return rank < 0 ? STATES.indexOf("unknown") : rank;
};

export const SEVERITIES = ["fatal", "error", "warning", "info"];
export const severityRank = (severity) => {
  const rank = SEVERITIES.indexOf(severity);
  return rank < 0 ? SEVERITIES.length : rank;
};

const SUBDOMAINS = {
  accelerator_gpu: "GPU",
  accelerator_memory: "GPU memory",
  accelerator_fabric: "NVLink fabric",
  pcie: "PCIe",
  network_hca: "network adapter",
  network_hca_port: "network port",
  network_fabric: "network fabric",
  power_thermal: "power or heat",
  node_down: "node down",
  kernel_fatal: "kernel failure",
  host_oom: "host out of memory",
  host_stall: "host stalled",
  node_mount: "mount of one node",
  shared_filesystem: "shared file system",
  fabric_config: "fabric configuration",
  preemption: "preempted",
  time_limit: "time limit",
  user_cancel: "cancelled by a user",
  code_exception: "exception in the code",
  gpu_code_fault: "fault in GPU code",
  gpu_oom: "GPU out of memory",
  collective_desync: "ranks out of step",
  numerical: "numerical trouble",
  ambiguous: "ambiguous",
  insufficient_evidence: "not enough evidence",
  completed: "completed",
};
export const subdomainName = (name) => SUBDOMAINS[name] ?? plain(name);

const ACTIONS = {
  interrupt_and_restart: "interrupt and restart",
  cordon: "cordon",
  drain: "drain",
  reset_gpu: "reset GPU",
  reboot_node: "reboot node",
  run_checks: "run checks",
  return_to_service: "return to service",
  retire: "retire",
};
export const actionName = (name) => ACTIONS[name] ?? plain(name);

const JOB_STATES = {
  RUNNING: "running",
  RUNNING_DEGRADED: "running, slowed",
  NODE_FAIL: "node failed",
  OUT_OF_MEMORY: "out of memory",
};
export const jobState = (state) => JOB_STATES[state] ?? plain(state).toLowerCase();

/** Thresholds that an outage passes: `half_budget`, `budget`, `lethal`, or a time such as `1s`. */
export const levelName = (level) => (/^\d+s$/.test(level) ? `after ${level.slice(0, -1)} s` : plain(level));

const UNITS = { s: "s", c: "°C", count: "", "1": "", errors: "errors" };
/** A value with its unit, in the precision that it deserves. */
export function quantity(value, unit) {
  if (value == null) return "unknown";
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 3;
  const number = Number(value.toFixed(digits)).toLocaleString("en-GB", { maximumFractionDigits: digits });
  const name = UNITS[unit] ?? unit ?? "";
  return name ? `${number} ${name}` : number;
}

export const plural = (n, one, many = `${one}s`) => `${n.toLocaleString("en-GB")} ${n === 1 ? one : many}`;

/** "a, b and c"; long lists are cut and say so. */
export function list(names, most = 3) {
  if (names.length <= 1) return names.join("");
  const shown = names.length > most + 1 ? [...names.slice(0, most), `${names.length - most} more`] : names;
  return `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}
