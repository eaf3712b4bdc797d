#!/bin/bash
cat >c.json <<'END'
{"model_type": "crosshead", "vocab_size": 4096, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8, "attention": {"type": "mfa"}}
END
crosshead export c.json --format transformers --untrained --tokenizer $DATA/TinyStories-656K/tokenizer.json --out file &&
  crosshead export c.json --format transformers --untrained --tokenizer $DATA/TinyStories-656K --out directory &&
  cp file/tokenizer.json . && crosshead export c.json --format transformers --untrained --out found &&
  crosshead export c.json --format transformers --untrained --no-tokenizer --out none &&
  cmp file/tokenizer.json found/tokenizer.json && cmp directory/tokenizer.json found/tokenizer.json &&
  test ! -e none/tokenizer.json && echo 'Once upon' | crosshead tokenize found -
