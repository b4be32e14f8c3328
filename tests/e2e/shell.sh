#!/usr/bin/env bash
# Completion of options, config names, keys and values in shells; and manual pages.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

# completes LINE PATTERN...: the completions of LINE must match each pattern.
completes() {
  checks=$((checks + 1))
  # shellcheck disable=SC2086
  DTN_COMPLETE_LINE=$1 "$bin/${1%% *}" > "$log" || fail "'$1' exits with an error"
  expect_text "${@:2}"
}
completes 'dtn-train --' '^--config$' '^--set$' '^--resume$'
completes 'dtn-train --dr' '^--dry-run$'
expect_equal "options that begin with --dr" "$(wc -l < "$log")" 1
completes 'dtn-train --config vit_s_star_d' '^vit_s_star_dtn$'
completes 'dtn-train --set optim.l' '^optim.lr=$' '^optim.layer_decay=$'
completes 'dtn-train --config x --set schedule.name=' '^schedule.name=cosine$' '^schedule.name=wsd$'
completes 'dtn-train --set model.qk_norm=t' '^model.qk_norm=true$'
completes 'dtn-train --device ' '^cpu$' '^cuda$'
completes 'dtn-bench ' '^norm$' '^train$'
completes 'dtn-bench norm --sh' '^--shape$'
completes 'dtn-eval --precision ' '^bf16$' '^fp32$'
completes 'dtn-info --keys train.b' '^train.batch_size$'
# The word after `dtn` selects the program.
completes 'dtn ' '^bench$' '^train$'
completes 'dtn tr' '^train$'
expect_equal "commands that begin with tr" "$(wc -l < "$log")" 1
DTN_COMPLETE_LINE='dtn train --dr' "$bin/dtn" train > "$log"
expect_text '^--dry-run$'

# Called as bash does; bash also splits the line at "=".
expect 0 dtn-info --completion bash
# shellcheck disable=SC1090
PATH=$bin:$PATH source "$log"
COMP_LINE='dtn-train --set schedule.name=co' COMP_POINT=${#COMP_LINE}
COMP_WORDS=(dtn-train --set schedule.name = co)
PATH=$bin:$PATH _dtn
expect_equal "bash's candidates" "${COMPREPLY[*]}" 'constant cosine'
for shell in zsh fish; do
  expect 0 dtn-info --completion $shell
  expect_text dtn-train
done
expect 2 dtn-info --completion tcsh

expect 0 dtn --man
expect_text '^.TH "dtn" 1' 'dtn train'
# Each command of `dtn --help` has a link, and each link a command.
mapfile -t commands < <("$bin/dtn" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]\+\)  .*/\1/p')
expect_equal "links" "$(cd "$bin" && find . -lname dtn | sort)" \
  "$(printf './dtn-%s\n' "${commands[@]}" | sort)"
for command in "${commands[@]}"; do
  expect 0 dtn-$command --man
  expect_text "^.TH \"dtn-$command\" 1" '^.SH OPTIONS' '^.SH EXIT STATUS' '^.SH EXAMPLES' '^.SH SEE ALSO' 'help'
  linked=$("$bin/dtn-$command" --help) named=$("$bin/dtn" $command --help)
  expect_equal "dtn $command --help" "$named" "$linked"
done
expect 2 dtn trian
expect_text "error: unexpected argument 'trian'; did you mean 'train'\?"
expect 2 dtn
expect_text '^Usage: dtn'
if command -v man > /dev/null; then
  "$bin/dtn-train" --man | man --warnings -l - > page.txt 2> warnings.txt || fail "man fails"
  [[ ! -s warnings.txt ]] || fail "man warns: $(cat warnings.txt)"
  grep -q -- '--config' page.txt || fail "the page lacks --config"
fi
