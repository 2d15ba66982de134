// Installs what package-lock.json pins (with its hashes) into .cache and copies the few files that the page
// loads, with their licences, into assets/vendor. Run by `make page`; nothing of it is needed to serve.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const page = dirname(fileURLToPath(import.meta.url));
const work = resolve(page, "../../../.cache/page");
const target = join(page, "assets/vendor");
const fresh = `${target}.new`;

// package, file in it, name here
const FILES = [
  ["preact", "dist/preact.mjs", "preact.js"],
  ["preact", "hooks/dist/hooks.mjs", "preact-hooks.js"],
  ["preact", "LICENSE", "preact.LICENSE"],
  ["htm", "dist/htm.mjs", "htm.js"],
  ["htm", "LICENSE", "htm.LICENSE"],
  ["uplot", "dist/uPlot.esm.js", "uplot.js"],
  ["uplot", "dist/uPlot.min.css", "uplot.css"],
  ["uplot", "LICENSE", "uplot.LICENSE"],
  ["@fontsource-variable/inter", "files/inter-latin-wght-normal.woff2", "inter.woff2"],
  ["@fontsource-variable/inter", "LICENSE", "inter.LICENSE"],
  ["@fontsource-variable/jetbrains-mono", "files/jetbrains-mono-latin-wght-normal.woff2", "jetbrains-mono.woff2"],
  ["@fontsource-variable/jetbrains-mono", "LICENSE", "jetbrains-mono.LICENSE"],
];

// A browser knows no package names, and an import map would have to stand inline, which the page's
// Content-Security-Policy forbids.
const IMPORTS = [[/from"preact"/g, 'from"./preact.js"']];

mkdirSync(work, { recursive: true });
for (const name of ["package.json", "package-lock.json", ".npmrc"]) copyFileSync(join(page, name), join(work, name));
execFileSync("npm", ["ci", "--silent"], { cwd: work, stdio: "inherit" });

rmSync(fresh, { recursive: true, force: true });
mkdirSync(fresh, { recursive: true });
for (const [from, file, name] of FILES) {
  const source = join(work, "node_modules", from, file);
  if (!name.endsWith(".js")) {
    copyFileSync(source, join(fresh, name));
    continue;
  }
  // the maps are not copied, so nothing may ask for them
  let code = readFileSync(source, "utf-8").replace(/\n?\/\/# sourceMappingURL=.*\s*$/, "\n");
  for (const [what, by] of IMPORTS) code = code.replace(what, by);
  const left = code.match(/^import\b[^;]*?from\s*"(?!\.\/)[^"]*"/m);
  if (left) throw new Error(`${from}/${file}: a browser can't resolve ${left[0]}`);
  writeFileSync(join(fresh, name), code);
}
rmSync(target, { recursive: true, force: true });
renameSync(fresh, target);
