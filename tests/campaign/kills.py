#!/usr/bin/env python3
"""Kills `slimpack plan --state` at random moments and asks again, until all documents are planned; then begins again.

Usage: kills.py BINARY [--kills N] [--seed S]. Exits with 1 unless every document is in exactly one plan, each plan is the one
that an undisturbed caller gets, and no other file is left.
"""
import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

BATCH = 40
BATCHES = 20


def command(binary, folder, lengths, iteration):
    """The call that plans an iteration: a batch, or after the last one what waits."""
    words = [binary, "plan", "--lengths", lengths, "--count", str(BATCH), "--context", "64K", "--model", "llama-7b"]
    words += ["--tp", "8", "--cp", "2", "--pp", "4", "--planner", "wlb", "--queues", "16000,40000"]
    words += ["--first", str(min(iteration, BATCHES - 1) * BATCH), "--iteration", str(iteration)]
    words += ["--state", f"{folder}/state", "-o", f"{folder}/plan-{iteration}.json"]
    return words + (["--drain"] if iteration >= BATCHES else [])


def write_lengths(path, draw):
    with open(path, "w", encoding="ascii") as file:
        for _ in range(BATCH * BATCHES):
            file.write(f"{min(65536, max(1, int(draw.lognormvariate(8.0, 1.5))))}\n")


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def trained(plan):
    """Ids of the documents that a plan trains."""
    document = json.loads(plan)
    return [document["document_ids"][sample] for pack in document["forward"] for sample, _, _ in pack["slices"]]


def all_waiting_is_planned(error):
    return b"nothing waits" in error


def undisturbed(binary, lengths):
    """All plans of a caller whom nothing disturbs, and the seconds that a call takes."""
    plans, seconds = [], []
    with tempfile.TemporaryDirectory() as folder:
        while True:
            begin = time.monotonic()
            done = subprocess.run(command(binary, folder, lengths, len(plans)), capture_output=True, check=False)
            if done.returncode != 0:
                if len(plans) < BATCHES or not all_waiting_is_planned(done.stderr):
                    sys.exit(f"iteration {len(plans)} fails by itself: {done.stderr.decode()}")
                return plans, sorted(seconds)[len(seconds) // 2]
            seconds.append(time.monotonic() - begin)
            plans.append(read(f"{folder}/plan-{len(plans)}.json"))


def run_killed(words, wait):
    """Whether the command was killed by us; if not, it has succeeded. It may take 0.1 ms to die."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        time.sleep(wait)
        process.kill()
        error = process.stderr.read()
    if process.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"exit code {process.returncode}: {' '.join(words)}: {error.decode()}")
    return process.returncode != 0


def main():
    options = argparse.ArgumentParser()
    options.add_argument("binary")
    options.add_argument("--kills", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options = options.parse_args()
    draw = random.Random(options.seed)
    count = collections.Counter()
    while count["kills"] < options.kills:
        with tempfile.TemporaryDirectory() as top:
            lengths, folder = f"{top}/lengths", f"{top}/out"
            os.mkdir(folder)
            write_lengths(lengths, draw)
            plans, seconds = undisturbed(options.binary, lengths)
            count["runs"] += 1
            for iteration, expected in enumerate(plans):
                # So many calls end by our hand that some iterations die many times over; the last call is left alone.
                for _ in range(draw.randrange(6)):
                    before = read(f"{folder}/state")
                    words = command(options.binary, folder, lengths, iteration)
                    killed = run_killed(words, draw.uniform(0, 1.3 * seconds))
                    count["calls"] += 1
                    count["kills"] += killed
                    count["kills after the state was written"] += killed and read(f"{folder}/state") != before
                    if not killed:
                        count["calls repeated although they had succeeded"] += 1
                subprocess.run(command(options.binary, folder, lengths, iteration), check=True)
                count["calls"] += 1
                count["iterations"] += 1
                if read(f"{folder}/plan-{iteration}.json") != expected:
                    count["other plans"] += 1
            times = collections.Counter(
                id for iteration in range(len(plans)) for id in trained(read(f"{folder}/plan-{iteration}.json")))
            count["documents"] += BATCH * BATCHES
            count["documents lost"] += sum(times[id] == 0 for id in range(BATCH * BATCHES))
            count["documents more than once"] += sum(number - 1 for number in times.values())
            left = set(os.listdir(folder)) - {"state"} - {f"plan-{i}.json" for i in range(len(plans))}
            count["files left over"] += len(left)
    for name in ("runs", "iterations", "calls", "kills", "kills after the state was written",
                 "calls repeated although they had succeeded", "documents", "documents lost", "documents more than once",
                 "other plans", "files left over"):
        print(f"{count[name]:8d} {name}")
    bad = sum(count[name] for name in ("documents lost", "documents more than once", "other plans", "files left over"))
    print(f"seed {options.seed}: " + ("FAILED" if bad else "every document is in exactly one plan"))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
