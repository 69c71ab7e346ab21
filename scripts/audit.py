"""Look the pinned versions up in the database of known vulnerabilities, and say what was found.

Usage: python -m scripts.audit      (in the repository's root)

Exits with 1 if a pinned version is known to be vulnerable. Where the database cannot be reached, as behind a mirror of
the package index that has no such data, it says so, which is no failure; pip-audit alone calls that "no known
vulnerabilities".
"""

import json
import subprocess
import sys
from collections.abc import Sequence

LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock", "requirements-uv.lock")

SECONDS = 120


def audit(command: Sequence[str]) -> str | None:
    """pip-audit's report as JSON, None if it gave none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.stdout.startswith("{") else None


def verdict(reports: Sequence[str | None]) -> tuple[int, list[str]]:
    """The exit code, and the lines to print, of pip-audit's reports."""
    packages = [one for report in reports if report is not None for one in json.loads(report)["dependencies"]]
    looked_up = {one["name"]: one for one in packages if "vulns" in one}
    if not looked_up:
        return 0, ["The database of vulnerabilities cannot be reached here: no version was looked up."]
    missed = sorted({one["name"] for one in packages} - looked_up.keys())
    found = [
        f"{one['name']} {one['version']}: {known['id']}, fixed in {', '.join(known['fix_versions']) or '?'}"
        for one in looked_up.values()
        for known in one["vulns"]
    ]
    lines = [f"{len(looked_up)} packages were looked up, {len(found)} vulnerabilities are known.", *found]
    if missed:
        lines.append(f"Not in the database: {', '.join(missed)}.")
    return (1 if found else 0), lines


def main() -> int:
    """Audit all lock files."""
    options = ["--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
    code, lines = verdict([audit([sys.executable, "-m", "pip_audit", "-r", lock, *options]) for lock in LOCKS])
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
