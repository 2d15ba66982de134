// Entities of the contract in words: `port/mlx5_3/1` is "port mlx5_3/1".

const KINDS = {
  port: "port",
  gpu: "GPU",
  nvlink: "NVLink",
  nvswitch: "NVSwitch",
  pci: "PCIe device",
  rank: "rank",
  switch: "switch",
  filesystem: "file system",
  job: "job",
};

/** UUIDs keep their first eight digits; the full one stands in the event. */
export function short(id) {
  const uuid = /^(?:GPU-|MIG-)?([0-9a-f]{8})[0-9a-f-]{12,}$/i.exec(id);
  return uuid ? `${uuid[1]}…` : id;
}

export function entity(name) {
  if (!name || name === "node") return "the whole node";
  if (name === "fabric") return "the fabric";
  const slash = name.indexOf("/");
  const kind = slash < 0 ? name : name.slice(0, slash);
  const rest = slash < 0 ? "" : name.slice(slash + 1);
  if (kind === "nvlink" && rest.includes("/")) {
    const cut = rest.lastIndexOf("/");
    return `NVLink ${rest.slice(cut + 1)} of GPU ${short(rest.slice(0, cut))}`;
  }
  if (kind === "filesystem" && rest === "shared") return "the shared file system";
  return KINDS[kind] ? `${KINDS[kind]} ${short(rest)}` : name;
}

/** Where something is: "port mlx5_3/1 of node-07", "node-07", "switch leaf-12". */
export function place({ node, entity: name }) {
  if (!node) return name ? entity(name) : "nobody in particular";
  return !name || name === "node" ? node : `${entity(name)} of ${node}`;
}
