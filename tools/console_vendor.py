"""Make the console's vendored libraries again: `python tools/console_vendor.py`, with npm and a network.

The versions are fixed here; the result is checked in, so neither a build nor an install needs npm.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

VENDOR = Path(__file__).parent.parent / "src" / "buddy" / "console" / "vendor"
PACKAGES = {
    "preact": "11.2.0",
    "htm": "3.1.1",
    "@preact/signals": "2.11.4",
    "marked": "18.2.0",
    "esbuild": "0.28.2",
}
ENTRIES = {
    "preact.js": """
        import { Component, Fragment, h, render } from "preact";
        import htm from "htm";
        export { Component, Fragment, h, render };
        export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
        export { batch, computed, effect, signal, untracked } from "@preact/signals";
        export const html = htm.bind(h);
    """,
    "marked.js": 'export { lexer } from "marked";',
}
BUNDLE = ["--bundle", "--minify", "--format=esm", "--target=es2022", "--legal-comments=none"]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = [f"{package}@{version}" for package, version in PACKAGES.items()]
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", name, *wanted], check=True)
        for file, entry in ENTRIES.items():
            source = folder / file
            source.write_text(entry, encoding="utf-8")
            esbuild = folder / "node_modules" / ".bin" / "esbuild"
            subprocess.run([esbuild, source, *BUNDLE, f"--outfile={VENDOR / file}"], cwd=folder, check=True)
        (VENDOR / "LICENSES.txt").write_text(_licences(folder), encoding="utf-8")


def _licences(folder: Path) -> str:
    parts: list[str] = []
    for package, version in {**PACKAGES, "@preact/signals-core": ""}.items():
        if package == "esbuild":
            continue
        text = next((folder / "node_modules" / package).glob("LICENSE*")).read_text(encoding="utf-8").strip()
        parts.append(f"{package} {version}".strip() + f"\n{'=' * 60}\n{text}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if shutil.which("npm") is None:
        raise SystemExit("error: npm is not installed")
    main()
