# For tools/check-aarch64 and tools/check-x86, which source it: models, and what is compared with the native build. The caller sets
# `label`, and defines emulate CPU COMMAND....

source tools/jobs.sh
long=${TERN_LONG:-}
unset TERN_LONG # tests' own long forms are for processors

# Tiny models of every weight type, wide enough for blocks of 256, and ids to evaluate.
types=(F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS
    IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ1_S IQ1_M TQ1_0 TQ2_0 NVFP4)
ids="1 243 203 215 261 143 141 179 100 295 241"
make_models() { # PYTHON
    PYTHONPATH=tests "$1" -c '
import sys, tiny
model = tiny.Model(tiny.WIDE)
for dtype in sys.argv[2:]:
    model.write(f"{sys.argv[1]}/{dtype}.gguf", dtype)' "$work" "${types[@]}"
}

# Logits of the native build, then on each processor: all positions at once, and one at a time by the GEMV kernels.
check_logits() { # NAME TERN MODEL IDS CPU...
    local out=$work/$1 tern=$2 model=$3 ids=$4 cpu batch
    shift 4
    build/tern logits -m "$model" --ids "$ids" --all -o "$out.native" || return
    for cpu in "$@"; do
        for batch in 512 1; do
            echo "$cpu, batch $batch"
            emulate "$cpu" "$tern" logits -m "$model" --ids "$ids" --all -b "$batch" -o "$out.emulated" &&
                cmp "$out.native" "$out.emulated" || return
        done
    done
}

# A level that CPU lacks is refused by name.
check_refused() { # TERN LEVEL CPU MODEL
    local message
    if message=$(TERN_ISA=$2 emulate "$3" "$1" logits -m "$4" --ids 1 -o /dev/null 2>&1); then return 1; fi
    echo "$message"
    [[ $message == *"'$2' is not supported by this processor"* ]]
}

# The level that a processor gets, and that doctor names.
check_chosen() { # TERN LEVEL CPU
    local line
    line=$(emulate "$3" "$1" doctor --json) || return
    echo "$line"
    [[ $line == *"\"isa\": \"$2\""* ]]
}
