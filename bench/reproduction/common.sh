# shellcheck shell=sh
# Sourced by the scripts of this folder: one shape, one text, one budget and the same seeds for all of them.
#
#   DATA=stories.txt bench/reproduction/mfa.sh [OPTION OF crosshead compare]...
#
# DATA    the text; without it the built-in one (the figures of docs/reproduction.md are of TinyStories)
# OUT     where models, results.json and report.html go: build/reproduction
# SEEDS   runs of each model: 3
# TOKENS  of each run: 600k
# INIT    how widely weights spread at the start: fan_in
set -eu
cd "$(dirname "$0")/../.."
DATA=${DATA:-data/tinyshakespeare.txt}
OUT=${OUT:-build/reproduction}
SEEDS=${SEEDS:-3}
TOKENS=${TOKENS:-600k}
INIT=${INIT:-fan_in}
crosshead=${CROSSHEAD:-build/crosshead}
list=

# variant NAME HEADS ATTENTION: writes a configuration of the shape that `claim` gives to presets, and puts it on $list.
# HEADS: "num_attention_heads" and what else belongs to it.
variant() {
  mkdir -p "$OUT/configs"
  cat > "$OUT/configs/$1.json" <<JSON
{"model_type": "crosshead", "vocab_size": 1024, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 6,
 $2, "max_position_embeddings": 256, "tie_word_embeddings": true, "init": "$INIT", "attention": $3}
JSON
  list="${list:+$list,}$OUT/configs/$1.json"
}

# claim NAME TITLE MECHANISMS [OPTION]...: a comparison in a folder of its own; what an earlier call finished there is kept.
# 6 layers of width 128, 4 heads of 32, 1.2 M parameters, 292 steps of 2048 tokens.
claim() {
  name=$1 title=$2 mechanisms=$3
  shift 3
  echo "== $title"
  "$crosshead" compare --data "$DATA" --out "$OUT/$name" --mechanisms "$mechanisms" --params 1200k --layers 6 \
    --hidden 128 --heads 4 --vocab 1024 --seeds "$SEEDS" --tokens "$TOKENS" --batch 16 --seq 128 --parametrization standard --init "$INIT" "$@"
  list=
}
