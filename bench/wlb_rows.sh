# What the tables of WLB-LLM's figures have in common. Sourced; expects command, lengths and iterations. A global batch is what
# fills pp * dp sequences of the context with whole documents in their order; longer ones are truncated.

exchange=all_gather # as in the paper

# Figures of one row of a comparison: tokens/s/GPU, delay, step seconds.
row() { # option...
  "$command" compare --quiet --lengths "$lengths" --truncate --iterations "$iterations" --device h100 \
    --exchange "$exchange" --json "$@" |
    awk -F': *|,' '/tokens_per_second_per_gpu/ { t = $2 } /token_delay/ { d = $2 } /"step_seconds"/ { s = $2 }
      END { print t, d, s }'
}
job() { # model context tp cp pp dp: the options of a layout
  echo --model "$1" --context "$2" --tp "$3" --cp "$4" --pp "$5" --dp "$6" --sequences $(($5 * $6))
}
over() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2fx", a / b }'; }
