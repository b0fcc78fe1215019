#!/usr/bin/env bash
# Times the slimpack command, the compiler, every Google Benchmark suite of a build, and planning by hydraulis. Writes
# docs/benchmarks.md, the one page with times of this software on a CPU. Transports are also timed between two processes: over TCP, and by
# MPI if the build has it and mpirun is found.
# Usage: bench/benchmarks.sh [BUILD_DIRECTORY [OUTPUT]]
#   BUILD_DIRECTORY: build/release, after cmake --preset release && cmake --build build/release
# SLIMPACK_BENCH_SUITES: only the suites whose names match this regular expression, such as 'dag|milp'. All of them take
# about a quarter of an hour on an idle machine, most of it for the kernels.
# SLIMPACK_BENCH_TESTS=1: also README's second command, which takes a quarter of an hour more.
# SLIMPACK_BENCH_SECONDS: least time for each benchmark, 0.1; SLIMPACK_MILP_SECONDS: time limit of each solve, 0.5.
# Variables that name files of lengths stand at the top of each suite (bench/*.cpp). GPUs have a script of their own,
# bench/gpu.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release} output=${2:-docs/benchmarks.md}
export SLIMPACK_MILP_SECONDS=${SLIMPACK_MILP_SECONDS:-0.5}
lengths=examples/data/github.train.txt older=d921a79
command=$(find "$build" -maxdepth 2 -type f -name slimpack -perm -u+x 2> /dev/null | head -n 1 || true)
if [[ -z $command ]]; then
  echo "benchmarks.sh: there is no slimpack command in $build; build it first" >&2
  exit 2
fi

say() { printf '%s\n' "$@"; }

milliseconds() { # COMMAND...: wall-clock time of one run
  local start=${EPOCHREALTIME/./}
  "$@" > /dev/null 2>&1
  echo $((${EPOCHREALTIME/./} - start)) | awk '{ printf "%.1f\n", $1 / 1000 }'
}

start_up() { # median of 20 runs
  for _ in {1..20}; do milliseconds "$command" --version; done | sort -n | sed -n 10p
}

start_up_memory() { # most memory of a run, MB
  python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024))' "$command" --version
}

fresh_seconds() { # SCRIPT [OPTION...]: of a copy without builds and without the compiler's cache
  local copy
  copy=$(mktemp -d)
  git clone --quiet . "$copy"
  CCACHE_DISABLE=1 milliseconds "$copy/$1" "${@:2}" | awk '{ printf "%.0f", $1 / 1000 }'
  rm -rf "$copy"
}

test_command() {
  if [[ -n ${SLIMPACK_BENCH_TESTS-} ]]; then
    echo " The second one, \`tests/run.sh\`, takes $(fresh_seconds tests/run.sh) seconds in the same way, to build and run all its tests."
  fi
}

planning() { # PLANNER COUNT CONTEXT [OPTION]: milliseconds of planning, mean over four batches in one process
  "$command" compare --quiet --planner "$1" --lengths "$lengths" --count "$2" --context "$3" --truncate --json \
    --iterations 4 --model llama-13b --device h100 --dp 16 --pp 8 "${@:4}" |
    awk -F': *|,' '/"planning_seconds"/ { printf "%.2f", 1000 * $2 }'
}

command_times() {
  say "## The command" "" "README's first command, \`examples/run.sh\`, takes $(fresh_seconds examples/run.sh --quiet) seconds from a" \
    "fresh clone to its last table, without the compiler's cache.$(test_command)" \
    "Starting the command (\`slimpack --version\`, median of 20 runs) takes $(start_up) ms and $(start_up_memory) MB." "" \
    "Planning, from the lengths to the plan with its times, memory and lower bound, in milliseconds: llama-13b on" \
    "h100, dp 16, pp 8, batches of \`$lengths\`, mean over four batches." "" \
    "| samples | context | \`megatron\` | \`slimpack --quick\` | \`slimpack\` |" "| --- | --- | --- | --- | --- |"
  local count context
  for count in 512 2048; do
    for context in 65536 131072 262144; do
      say "| $count | $((context / 1024))K | $(planning megatron "$count" "$context") | $(
        planning slimpack "$count" "$context" --quick) | $(planning slimpack "$count" "$context") |"
    done
  done
}

older_times() { # milliseconds of planning by an earlier version, and by this one
  git cat-file -e "$older" 2> /dev/null || return 0
  say "" "## Planning by an earlier version" "" \
    "What \`tests/campaign/older/times.sh $older\` prints: milliseconds of planning 2,048 samples by version $older of the search," \
    "which promises less ([what today's promises cost](slimpack.md#4-search)), and by this one, with headers alone at -O2: llama-13b" \
    "on h100, 16 pipelines of 8 stages, mean over four batches." "" \
    "| version | 64K | 128K | 256K |" "| --- | --- | --- | --- |"
  tests/campaign/older/times.sh "$older" | awk '{ print "| " $1 " | " $2 " | " $3 " | " $4 " |" }'
}

compile_seconds() { # SOURCE [OPTION...]: of the compiler, the least of three runs
  local TIMEFORMAT='%U %S'
  for _ in 1 2 3; do { time "${CXX:-c++}" -std=c++20 -O2 -Iinclude -c "$@" -o /dev/null; } 2>&1; done |
    awk '{ printf "%.2f\n", $1 + $2 }' | sort -n | head -n 1
}

compile_row() { # SOURCE
  local alone compiled
  alone=$(compile_seconds "$1")
  compiled=$(compile_seconds "$1" -DSLIMPACK_COMPILED_PLANNERS)
  say "| \`$1\` | $alone | $compiled | $(awk -v a="$alone" -v b="$compiled" 'BEGIN { printf "%.1fx", a / b }') |"
}

compile_times() {
  say "" "## Compiling a file that plans" "" \
    "CPU seconds of the compiler at -O2, the least of three runs: with the headers alone, and for a target that links" \
    "\`slimpack::planners\`. The library itself takes $(compile_seconds kernels/planners/planners.cpp -DSLIMPACK_COMPILED_PLANNERS), once." "" \
    "| file | headers alone | \`slimpack::planners\` | ratio |" "| --- | --- | --- | --- |"
  compile_row examples/own_cost_model.cpp
  compile_row examples/plan_a_batch.cpp
}

# Google Benchmark's JSON as a Markdown table. It has one key per line; keys that are not its own are counters.
as_table='
  function put() {
    if (name == "") return
    time = error != "" ? "–" : sprintf("%.4g %s", cpu, unit)
    print "| `" name "` | " time " | " rate " | " (error != "" ? error : counters) " |"
    name = error = rate = counters = ""
  }
  /"benchmarks": \[/ { within = 1; print "| benchmark | CPU time | rate | counters |\n| --- | --- | --- | --- |"; next }
  !within || !/^ *"[^"]*": / { next }
  {
    key = $0; sub(/^ *"/, "", key); sub(/".*/, "", key)
    value = $0; sub(/^ *"[^"]*": */, "", value); sub(/,$/, "", value); gsub(/"/, "", value)
    if (key == "name") { put(); name = value }
    else if (key == "real_time") real = value
    else if (key == "cpu_time") cpu = name ~ /manual_time$/ ? real : value
    else if (key == "time_unit") unit = value
    else if (key == "error_message") error = value
    else if (key == "items_per_second") rate = sprintf("%.4g items/s", value)
    else if (key == "bytes_per_second") rate = sprintf("%.4g bytes/s", value)
    else if (key == "label") counters = value
    else if (key !~ /^(family_index|per_family_instance_index|run_name|run_type|repetitions|repetition_index|threads|iterations|error_occurred)$/)
      counters = counters (counters == "" ? "" : ", ") key " " sprintf("%.5g", value)
  }
  END { put() }'

table() { # COMMAND...: of a suite
  "$@" --benchmark_min_time="${SLIMPACK_BENCH_SECONDS:-0.1}" --benchmark_format=json 2> /dev/null | awk "$as_table"
}

hydraulis_times() { # BINARY: bench_hydraulis, which is no suite, prints a heading, an empty line and a table
  say "Seconds of planning ten batches on one core, as in Hydraulis' Table 2; the proposal is made once" \
    "([what the columns cover](hydraulis.md#table-2-planning-time))." ""
  "$1" table2 "$lengths" 10 | tail -n +3
}

process_times() { # BINARY: bench_transport with two processes
  if command -v mpirun > /dev/null && ldd "$1" | grep -q libmpi; then
    say "" "## \`mpirun -n 2 bench_transport\`" ""
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 table mpirun -n 2 --oversubscribe "$1"
  fi
  say "" "## \`bench_transport\` over TCP" ""
  local -x WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29731
  RANK=1 LOCAL_RANK=1 "$1" > /dev/null 2>&1 &
  RANK=0 LOCAL_RANK=0 table "$1"
  wait $!
}

suite_times() { # BINARY
  say "" "## \`$(basename "$1")\`" ""
  case $1 in
    */bench_hydraulis) hydraulis_times "$1" ;;
    */bench_transport)
      table "$1"
      process_times "$1"
      ;;
    *) table "$1" ;;
  esac
}

page() {
  local machine
  machine=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
  say "# Benchmarks" "" \
    "Look up here how fast the parts of slimpack are on one machine, or run \`bench/benchmarks.sh\` on yours: it writes" \
    "this page. On a machine that others use, times vary by a third or more from run to run; ratios between lines of one" \
    "suite are more reliable. The top of \`bench/<suite>.cpp\` explains each line, its arguments and its counters. Lines" \
    "that measure another system's algorithm run it in C++, written again from its code, so that ratios are those of the" \
    "algorithms." "" \
    "$(date -u +%F), ${machine:-$(uname -m)}, $(nproc) cores, $("${CXX:-c++}" --version | head -n 1), build \`$(
      basename "$build")\`, commit $(git rev-parse --short HEAD 2> /dev/null || echo unknown), load average $(
      cut -d ' ' -f 1 /proc/loadavg) at the start." ""
  command_times
  older_times
  compile_times
  local suite
  for suite in "$build"/bench/bench_*; do
    if [[ -f $suite && -x $suite && $suite != */bench_gpu && ${suite##*/bench_} =~ ^(${SLIMPACK_BENCH_SUITES:-.*})$ ]]; then
      suite_times "$suite"
    fi
  done
}

page > "$output.new"
mv "$output.new" "$output"
