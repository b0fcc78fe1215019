#!/usr/bin/env python3
"""Prints headers in chains, each of which a compiler reads at once: a header of a chain includes all headers before it.

Usage: chains.py FOLDER:FOLDER... BASE... < HEADERS   paths count from one of the folders; printed are BASE:HEADER,HEADER,…

What stands before a header's own text in its chain is what it includes itself, so that a missing include is still seen. The same
holds for the base, which is compiled once for many chains: the largest of those that all headers of the chain include.
"""
import functools
import os
import re
import sys

FOLDERS, BASES = sys.argv[1].split(":"), sys.argv[2:]


def place(header):
    """Where a header stands, or nothing if it is not one of ours."""
    return next(filter(os.path.exists, (os.path.join(folder, header) for folder in FOLDERS)), None)


@functools.cache
def includes(header):
    """What a header includes before its own text begins, and after that."""
    before, after, begun = [], [], False
    with open(place(header)) as file:
        for line in file:
            begun = begun or line.startswith("namespace")
            if match := re.match('#include "([^"]+)"', line):
                (after if begun else before).append(match.group(1))
    return [[h for h in some if place(h)] for some in (before, after)]


@functools.cache
def read_before(header):
    """All headers that are read before the header's own text."""
    return frozenset().union(*map(read_with, includes(header)[0]))


@functools.cache
def read_with(header):
    """All headers that are read with the header, itself included."""
    return frozenset({header}).union(read_before(header), *map(read_with, includes(header)[1]))


def size(header):
    return len(read_with(header)), header


def chains(headers):
    """The chain of the largest header goes down to the largest that it includes, and so on; then that of the largest header left."""
    left = set(headers)
    for largest in sorted(headers, key=size, reverse=True):
        chain, below = [], {largest} & left
        while below:
            chain.append(max(below, key=size))
            left.remove(chain[-1])
            below = read_before(chain[-1]) & left
        if chain:
            yield reversed(chain)


with_base = {}
for name in sys.stdin.read().split():
    included = [base for base in BASES if base in read_before(name)]
    with_base.setdefault(max(included, key=size, default=""), []).append(name)
for base, names in with_base.items():
    for chain in chains(names):
        print(f"{base}:{','.join(chain)}")
