// A verdict in plain words: what happened, to whom, how sure, and what would make it surer.
import { place } from "./entity.js";
import { jobState, list, plural, subdomainName } from "./words.js";

const OPEN = ["ambiguous", "insufficient_evidence"];

const HEADLINES = {
  accelerator_gpu: (who) => `A GPU failed: ${who}`,
  accelerator_memory: (who) => `GPU memory failed: ${who}`,
  accelerator_fabric: (who) => `The NVLink fabric failed: ${who}`,
  pcie: (who) => `A PCIe device failed: ${who}`,
  network_hca: (who) => `A network adapter failed: ${who}`,
  network_hca_port: (who) => `A network port was down too long: ${who}`,
  network_fabric: (who) => `The network between the nodes failed: ${who}`,
  power_thermal: (who) => `Power or heat held it back: ${who}`,
  node_down: (who) => `A node died: ${who}`,
  kernel_fatal: (who) => `The kernel gave up: ${who}`,
  host_oom: (who) => `The host ran out of memory: ${who}`,
  host_stall: (who) => `The host stalled: ${who}`,
  node_mount: (who) => `A mount of one node hung: ${who}`,
  shared_filesystem: (who) => `The shared file system stalled: ${who}`,
  fabric_config: () => "The fabric is configured wrongly",
  preemption: () => "The scheduler preempted the job",
  time_limit: () => "The job reached its time limit",
  user_cancel: () => "Somebody cancelled the job",
  code_exception: (who) => (who ? `The program raised an exception: ${who}` : "The program raised the same exception everywhere"),
  gpu_code_fault: (who) => (who ? `The program's GPU code faulted: ${who}` : "The program's GPU code faulted"),
  gpu_oom: (who) => (who ? `The program ran out of GPU memory: ${who}` : "The program ran out of GPU memory"),
  collective_desync: (who) => (who ? `A rank left the others waiting: ${who}` : "The ranks fell out of step"),
  numerical: () => "The numbers went wrong (NaN or divergence)",
};

const SCHEDULED = new Set(["preemption", "time_limit", "user_cancel", "fabric_config", "numerical"]);

/** One sentence. `verdict` is the data of an attribution. */
export function headline(verdict) {
  const { domain, subdomain, terminal_state: end, culprits = [], candidates } = verdict;
  if (domain === "none") return end === "COMPLETED" ? "Completed. Nothing to explain." : "Nothing is wrong that would need explaining.";
  if (subdomain === "insufficient_evidence") {
    return culprits.length ? `Not enough was seen. ${culprits.length === 1 ? "Suspect" : "Suspects"}: ${list(culprits.map(place))}` : "Not enough was seen to say what happened.";
  }
  if (subdomain === "ambiguous") {
    const suspects = (candidates?.length ? candidates : culprits).map(place);
    return suspects.length ? `Several causes fit: ${list([...new Set(suspects)])}` : "Several causes fit, and nothing tells them apart.";
  }
  const say = HEADLINES[subdomain];
  const who = culprits.length ? list(culprits.map(place)) : "";
  if (!say) return `${subdomainName(subdomain)}${who ? `: ${who}` : ""}`;
  return who || SCHEDULED.has(subdomain) ? say(who) : say("").replace(/: $/, "");
}

/** {level: firm | early | gaps | open, text}: the word for how sure, with the reason. */
export function confidence(verdict) {
  const { phase, domain, subdomain, coverage = [], candidates } = verdict;
  if (subdomain === "insufficient_evidence") {
    return { level: "open", word: "open", text: "What was seen does not name a cause. That is said instead of guessing." };
  }
  if (subdomain === "ambiguous") {
    const n = candidates?.length ?? 0;
    return { level: "open", word: "ambiguous", text: `${n ? plural(n, "candidate") : "Several candidates"} fit the evidence equally well. Naming one would be a guess.` };
  }
  if (domain === "none") return { level: "firm", word: phase, text: phase === "final" ? "Final: all evidence has had time to arrive." : "So far. A finding would change it." };
  const missing = coverage.filter((c) => c.status !== "ok").length;
  if (phase !== "final") {
    const why = phase === "fast" ? "Fast: decided shortly after the onset; late evidence may still change it." : "Provisional: decided while it happens; may change as evidence arrives.";
    return { level: "early", word: phase, text: why };
  }
  if (missing) return { level: "gaps", word: "final, with gaps", text: `Final, but ${plural(missing, "collector")} of affected nodes could not see. See the gaps below.` };
  return { level: "firm", word: "final", text: "Final: one cause is left, and every collector of the affected nodes was well." };
}

export const isOpen = (verdict) => OPEN.includes(verdict?.subdomain);

/** Short form for tables: "network port · node-07 port mlx5_3/1". */
export function brief(verdict) {
  if (!verdict || verdict.domain === "none") return "";
  return subdomainName(verdict.subdomain);
}

/** How it ended, in words. */
export const ending = (verdict) => jobState(verdict.terminal_state);
