#!/usr/bin/env python3
"""Does it harm learning that documents wait, or that batches are reordered? Trains one small model on the same documents as
three planners order them, with several seeds. Prints a Markdown table and draws losses on unseen text.

Usage: delay_learning.py COMMAND LENGTHS [--seeds N] [--steps N] [--svg FILE]   COMMAND: the built slimpack, LENGTHS: a file
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

SCALE = 32  # the context stands for one of 64K
CONTEXT = 2048
EVERY = 8  # steps from one evaluation to the next
PLANNERS = {  # name: (options, colour)
    "no reordering": (["--planner", "plain-4d"], "var(--F)"),
    "WLB's delay": (["--planner", "wlb", "--max-tokens", str(2 * CONTEXT)], "var(--W)"),
    "window of 8 batches": (["--planner", "fixed-4d", "--window", "8"], "var(--B)"),
}
MODEL = "--layers 2 --hidden 64 --heads 4 --kv-heads 2 --head-dim 16 --ffn 192 --vocab 128 --learning-rate 0.003"


def train(command, lengths, options, seed, steps):
    """Losses on unseen text after every eighth step, and the language's entropy. Steps after `steps` train what still waits;
    they don't count, so that all have made as many steps."""
    job = ["--lengths", lengths, "--sequences", "8", "--context", str(CONTEXT), "--truncate", "--topics", "12", "--evaluate", str(EVERY),
           "--steps", str(steps), "--seed", str(seed), "--quiet", "--json", *MODEL.split(), *options]
    report = json.loads(subprocess.run([command, "train", *job], check=True, capture_output=True, text=True).stdout)
    return [e["unseen_loss"] for e in report["evaluations"] if e["steps"] % EVERY == 0][: steps // EVERY], report["entropy"]


def spread(values):
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values) if len(values) > 1 else 0:.4f}"


def table(curves):
    names = list(curves)
    seeds = range(len(curves[names[0]]))
    print("| order of documents | loss on unseen text at the end, mean ± deviation of the seeds | against no reordering, same seed | in % |")
    print("| --- | --- | --- | --- |")
    plain = [curve[-1] for curve in curves[names[0]]]
    for name in names:
        last = [curve[-1] for curve in curves[name]]
        worse = [last[s] - plain[s] for s in seeds]
        share = 100 * sum(worse) / sum(plain)
        print(f"| {name} | {spread(last)} | {spread(worse) if name != names[0] else ''} | {f'{share:+.2f}' if name != names[0] else ''} |")


def draw(curves, entropy, path):
    """Means over the seeds, with bands of one deviation."""
    width, height, left, top, bottom = 640, 340, 56, 16, 44
    places = [EVERY * (i + 1) for i in range(len(next(iter(curves.values()))[0]))]
    first, last = places[0], places[-1]
    bands = {}
    for name, runs in curves.items():
        bands[name] = [(statistics.mean(v), statistics.stdev(v) if len(v) > 1 else 0.0) for v in zip(*runs)]
    high = max(m + d for band in bands.values() for m, d in band)
    low = min(entropy, min(m - d for band in bands.values() for m, d in band))
    x = lambda t: left + (t - first) / (last - first) * (width - left - 16)
    y = lambda v: top + (high - v) / (high - low) * (height - top - bottom)
    style = (":root{color-scheme:light dark;--bg:#fcfcfb;--fg:#1d2126;--dim:#5d6671;--line:#d9dde2;--F:#3572c8;--B:#e8983a;--W:#4aa36b}"
             "@media (prefers-color-scheme:dark){:root{--bg:#15181c;--fg:#e6e8ea;--dim:#9aa4af;--line:#333a42;--F:#5b9bf0;--B:#f0a545;"
             "--W:#62bd85}}text{font:12px system-ui,sans-serif;fill:var(--fg)}")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"><style>{style}</style>'
           '<rect width="100%" height="100%" fill="var(--bg)"/>']
    for i in range(math.ceil(2 * low), math.floor(2 * high) + 1):
        out.append(f'<line x1="{left}" x2="{width - 16}" y1="{y(i / 2):.1f}" y2="{y(i / 2):.1f}" stroke="var(--line)"/>'
                   f'<text x="{left - 8}" y="{y(i / 2) + 4:.1f}" text-anchor="end">{i / 2}</text>')
    for t in places[1::2]:
        out.append(f'<text x="{x(t):.1f}" y="{height - bottom + 16}" text-anchor="middle">{t}</text>')
    out.append(f'<text x="{(left + width) / 2}" y="{height - 8}" text-anchor="middle">steps</text>'
               f'<line x1="{left}" x2="{width - 16}" y1="{y(entropy):.1f}" y2="{y(entropy):.1f}" stroke="var(--dim)" '
               f'stroke-dasharray="4 3"/><text x="{left + 6}" y="{y(entropy) - 5:.1f}">what nobody can know</text>')
    for n, (name, band) in enumerate(bands.items()):
        colour = PLANNERS[name][1]
        upper = [f"{x(t):.1f},{y(m + d):.1f}" for t, (m, d) in zip(places, band)]
        lower = [f"{x(t):.1f},{y(m - d):.1f}" for t, (m, d) in zip(places, band)]
        middle = [f"{x(t):.1f},{y(m):.1f}" for t, (m, _) in zip(places, band)]
        out.append(f'<polygon points="{" ".join(upper + lower[::-1])}" fill="{colour}" fill-opacity=".2"/>'
                   f'<polyline points="{" ".join(middle)}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
                   f'<text x="{width - 30}" y="{top + 20 + 18 * n}" text-anchor="end" style="fill:{colour}">{name}</text>')
    pathlib.Path(path).write_text("\n".join(out) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command")
    parser.add_argument("lengths")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--svg")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scaled = pathlib.Path(folder, "lengths")
        scaled.write_text("".join(f"{-(-int(n) // SCALE)}\n" for n in pathlib.Path(o.lengths).read_text().split()))
        curves, entropy = {}, 0.0
        for name, (options, _) in PLANNERS.items():
            runs = [train(o.command, str(scaled), options, seed, o.steps) for seed in range(1, o.seeds + 1)]
            curves[name], entropy = [run[0] for run in runs], runs[0][1]
    table(curves)
    if o.svg:
        draw(curves, entropy, o.svg)


main()
