"""Lint and render the Helm chart, and keep what it renders: `make chart`.

Helm's own program comes through Go modules (it is built into build/helm when there is none on the path), which takes
minutes, and what it renders is held against the schemas of Kubernetes, which come with the package kubernetes-validate
into an environment of its own. So the rendered manifests are committed under packaging/helm/rendered with a digest of
the chart they were made from, and `make test` checks that they are those of the chart as it stands.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "packaging" / "helm" / "msmq"
VALUES = ROOT / "packaging" / "helm" / "values"
RENDERED = ROOT / "packaging" / "helm" / "rendered"
DIGEST = RENDERED / "DIGEST"
VALIDATOR = "kubernetes-validate==1.37.0"
KUBERNETES = "1.37"
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"


def digest() -> str:
    """What the chart and the values of the examples are."""
    found = hashlib.sha256()
    for path in sorted([*CHART.rglob("*"), *VALUES.glob("*.yaml")]):
        if path.is_file():
            found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def cases() -> dict[str, list[str]]:
    """The names of what is rendered, and the options of helm for it."""
    found: dict[str, list[str]] = {"defaults": []}
    return found | {path.stem: ["--values", str(path)] for path in sorted(VALUES.glob("*.yaml"))}


def helm() -> str:
    """Helm's program; it is built from its source when there is none."""
    if there := shutil.which("helm"):
        return there
    place = ROOT / "build" / "helm" / "helm"
    if not place.exists():
        if shutil.which("go") is None:
            sys.exit("chart: neither helm nor go is on the path; install one of them")
        print(f"building {HELM}, which takes some minutes", file=sys.stderr)
        environment = {**os.environ, "GOBIN": str(place.parent)}
        subprocess.run(["go", "install", HELM], env=environment, check=True)
    return str(place)


def validator() -> str:
    """The program that knows the schemas of Kubernetes."""
    place = ROOT / "build" / "kubernetes-validate"
    program = place / "bin" / "kubernetes-validate"
    if not program.exists():
        venv.create(place, with_pip=True)
        subprocess.run([place / "bin" / "pip", "install", "--quiet", VALIDATOR], check=True)
    return str(program)


def main() -> None:
    program = helm()
    RENDERED.mkdir(exist_ok=True)
    for name, options in cases().items():
        subprocess.run([program, "lint", "--strict", str(CHART), *options], check=True)
        command = [
            program,
            "template",
            "orders",
            str(CHART),
            "--namespace",
            "messaging",
            "--kube-version",
            KUBERNETES,
        ]
        command += options
        shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        (RENDERED / f"{name}.yaml").write_text(shown, encoding="utf-8")
    manifests = [str(RENDERED / f"{name}.yaml") for name in cases()]
    subprocess.run([validator(), "--strict", "--kubernetes-version", KUBERNETES, *manifests], check=True)
    DIGEST.write_text(digest() + "\n", encoding="utf-8")
    print(f"rendered {', '.join(cases())}")


if __name__ == "__main__":
    main()
