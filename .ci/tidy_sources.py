#!/usr/bin/env python3
"""Writes the sources of each of a build's targets into one file, so that clang-tidy reads the headers once for all of them.

Usage: tidy_sources.py BUILD REGEX OUT   writes the sources whose paths match, and how to compile them, to the folder OUT
       tidy_sources.py OUT               puts the sources' own paths and lines into messages, from standard input to output
"""
import json
import os
import re
import shlex
import sys

MARK = "// source: "


def targets(build, pattern):
    """The commands of each target of the build that compile sources whose paths match."""
    found = {}
    with open(os.path.join(build, "compile_commands.json")) as file:
        for command in json.load(file):
            if re.search(pattern, command["file"]):
                name = re.search(r"/([^/]*)\.dir/", command["command"]).group(1)
                found.setdefault(name, []).append(command)
    return found


def write(build, pattern, out):
    os.makedirs(out, exist_ok=True)
    commands = []
    for name, sources in targets(build, pattern).items():
        path = os.path.abspath(os.path.join(out, name + ".cpp"))
        folders = {os.path.dirname(source["file"]) for source in sources}
        words = [word for word in shlex.split(sources[0]["command"]) if word != sources[0]["file"]]
        words += ["-I" + folder for folder in sorted(folders)] + [path]
        with open(path, "w") as file:
            for source in sources:
                with open(source["file"]) as text:
                    file.write(MARK + source["file"] + "\n" + text.read())
        commands.append({"directory": sources[0]["directory"], "file": path, "command": shlex.join(words)})
    if not commands:
        sys.exit(f"tidy: no source of {build} matches {pattern}")
    with open(os.path.join(out, "compile_commands.json"), "w") as file:
        json.dump(commands, file, indent=1)


def own_place(out):
    """A function that gives the own path and line for a path and line below OUT."""
    places = {}

    def of(match):
        path, line = match.group(1), int(match.group(2))
        if path not in places:
            places[path], own = [], ("", 0)
            with open(path) as file:
                for number, text in enumerate(file, 1):
                    own = (text[len(MARK):].strip(), number) if text.startswith(MARK) else own
                    places[path].append(own)
        own, begin = places[path][line - 1]
        return f"{own}:{line - begin}:"

    return lambda text: re.sub("(" + re.escape(os.path.abspath(out)) + r"/[^/: ]*\.cpp):(\d+):", of, text)


if len(sys.argv) == 4:
    write(*sys.argv[1:])
else:
    restored = own_place(sys.argv[1])
    for message in sys.stdin:
        sys.stdout.write(restored(message))
