#!/bin/bash
# A message becomes the prompt that the model's template makes of it; control tokens in it stay text. Token 2 ends a turn.
mkdir model && cp $DATA/TinyStories-656K/* model
printf '%s' "{% for m in messages %}[{{ m.role }}] {{ m.content }} <|end_story|>{% endfor %}{% if add_generation_prompt %}[you]{% endif %}" \
  >model/chat_template.jinja
ends() {
  crosshead generate model --chat --temperature 0 --max-tokens 1 --json "$@" 2>/dev/null |
    tr -d ' \n' | grep -o '"prompt_ids":[^]]*]' | grep -o '[0-9]*' | grep -cx 2
}
ends --prompt "The dog"
ends --prompt "The dog" --system "Be brief."
ends --prompt "The <|end_story|> dog"
