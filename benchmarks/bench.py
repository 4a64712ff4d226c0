"""feddr beside its peers, its scaling, and its distance to the machine's limits, in one run on this machine.

python benchmarks/bench.py              # all; writes docs/performance.json and docs/PERFORMANCE.md
python benchmarks/bench.py --quick      # all with few rounds, about 3 minutes; writes to runs/bench
python benchmarks/bench.py --only NAME  # a part, a peer or a workload, as --help lists them; as above
"""

import argparse
import itertools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import clients
import cluster
import comparison
import cores
import encoding
import environments
import networks
import roofline
from workloads import WORKLOADS, flops

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- results of `make bench`, do not edit -->", "<!-- end of results -->"
PARTS = ("clients", "cluster", "encoding", "models", "networks", "roofline")
ENVIRONMENTS = dict.fromkeys(runner.environment for runner in comparison.RUNNERS)
NAMES = (*PARTS, *ENVIRONMENTS, *(workload.name for workload in WORKLOADS))


def main() -> None:
    parser = argparse.ArgumentParser(description="feddr beside its peers, on this machine")
    parser.add_argument("--quick", action="store_true", help="few rounds and one repetition, about 3 minutes")
    parser.add_argument("--only", choices=NAMES, help="a part, a peer or a workload")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exception, so that runners are ended, too
    wanted = {*PARTS, "peers"} if options.only is None else {options.only if options.only in PARTS else "peers"}
    results: dict[str, Any] = {"machine": roofline.describe(), "quick": options.quick, "only": options.only}
    if {"roofline", "models", "networks"} & wanted:
        print("The machine's limits", flush=True)
        results["roofs"] = {threads: roofline.roofs(threads) for threads in (1, 2)}
    if "peers" in wanted:
        runners, workloads = comparison.chosen(options.only, options.quick)
        for name in dict.fromkeys(runner.environment for runner in runners):
            environments.bin_folder(name)
        print("Peers", flush=True)
        results["peers"] = comparison.measure(options.quick, runners, workloads)
    if "models" in wanted:
        print("Cores and models", flush=True)
        results["models"] = cores.measure(options.quick)
    if "networks" in wanted:
        for side in networks.SIDES:
            environments.bin_folder(side.environment)
        print("Networks", flush=True)
        results["networks"] = networks.measure(options.quick)
    if "clients" in wanted:
        print("Clients", flush=True)
        results["clients"] = clients.measure(options.quick)
    if "cluster" in wanted:
        environments.bin_folder(cluster.TORCH)
        print("Cluster", flush=True)
        results["cluster"] = cluster.measure(options.quick)
    if "encoding" in wanted:
        print("Encoding", flush=True)
        results["encoding"] = encoding.measure(options.quick)
    results["machine"]["load_at_end"] = os.getloadavg()
    report = "\n".join(render(results))
    print("\n" + report)
    write(results, report, ROOT / "runs" / "bench" if options.quick or options.only else ROOT / "docs")


def render(results: dict[str, Any]) -> list[str]:
    """Return the report in Markdown."""
    machine = results["machine"]
    loads = ", ".join(f"{machine[name][0]:.1f}" for name in ("load_at_start", "load_at_end"))
    lines = [
        f"{machine['date']}; {machine['processor']}, {machine['cores']} cores, {', '.join(machine['vector'])}, "
        f"{machine['memory_gb']} GB; {machine['system']}; Python {machine['python']}; load at start and end {loads}.",
        "",
    ]
    if "peers" in results:
        lines += ["### feddr and its peers", "", *comparison.table(results["peers"]), "", *notes(results["peers"]), ""]
    peaks = {}
    if "roofs" in results:
        peaks = {n: max(roof["numpy_gflops"], roof["jax_gflops"]) for n, roof in results["roofs"].items()}
    if "models" in results:
        lines += ["### Cores and models", "", *cores.table(results["models"], peaks), ""]
    if "networks" in results:
        lines += ["### Networks beside PyTorch", "", *networks.table(results["networks"], peaks), ""]
    if "clients" in results:
        lines += ["### Clients", "", *clients.table(results["clients"]), ""]
    if "cluster" in results:
        lines += ["### Cluster", "", *cluster.table(results["cluster"]), ""]
    if "encoding" in results:
        lines += ["### Compressed uploads", "", *encoding.table(results["encoding"]), ""]
    if "roofs" in results:
        lines += ["### The machine's limits", "", *roof_table(results["roofs"]), ""]
    return lines


def notes(records: list[dict[str, Any]]) -> list[str]:
    """Return what each runner was, with its versions, and what failed."""
    lines = []
    for runner in dict.fromkeys(record["runner"] for record in records):
        mine = [record for record in records if record["runner"] == runner]
        errors = dict.fromkeys(f"{r['workload']}: {r['error']}" for r in mine if "error" in r)
        good = next((r for r in mine if "setup" in r), None)
        if good:
            versions = ", ".join(f"{name} {version}" for name, version in good["versions"].items())
            loss = {r["workload"]: r["loss_after_first_round"] for r in reversed(mine) if "setup" in r}
            losses = ", ".join(f"{name} {value:.3f}" for name, value in sorted(loss.items()))
            lines.append(f"- {runner}: {good['setup']}; {versions}; loss after the first round: {losses}")
        lines += [f"- {runner} failed: {error}" for error in errors]
    return lines


def roof_table(roofs: dict[int, dict[str, float]]) -> list[str]:
    """Return the measured limits, and the intensities that say which of them binds."""
    lines = ["| threads | matmul in NumPy, GFLOP/s | matmul in JAX, GFLOP/s | copy, GB/s |", "|---:|---:|---:|---:|"]
    for threads, roof in roofs.items():
        lines.append(
            f"| {threads} | {roof['numpy_gflops']:.0f} | {roof['jax_gflops']:.0f} | {roof['copy_gb_per_s']:.0f} |"
        )
    lines += ["", "| network | MFLOP a step | parameters, MB | FLOP a byte if read and written once a step |"]
    lines += ["|---|---:|---:|---:|"]
    for layers, batch_size in dict.fromkeys((workload.layers, workload.batch_size) for workload in cores.MODELS):
        work = flops(layers, batch_size)
        size = 4 * sum((a + 1) * b for a, b in itertools.pairwise(layers))
        name = "x".join(map(str, layers))
        lines.append(f"| {name} | {work / 1e6:.2f} | {size / 1e6:.3f} | {work / (2 * size):.1f} |")
    return lines


def write(results: dict[str, Any], report: str, folder: Path) -> None:
    """Write performance.json, and the report between the two marks of PERFORMANCE.md."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "performance.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    page = folder / "PERFORMANCE.md"
    text = page.read_text(encoding="utf-8") if page.exists() else f"# Performance\n\n{BEGIN}\n{END}\n"
    if BEGIN not in text or END not in text:
        raise ValueError(f"{page} needs the lines {BEGIN} and {END}; put them where the results should stand.")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n\n{report}\n{END}{after}", encoding="utf-8")
    print(f"Written: {folder.relative_to(ROOT)}/performance.json and PERFORMANCE.md")


if __name__ == "__main__":
    main()
