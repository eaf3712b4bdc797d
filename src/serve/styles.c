/* The three forms of answers. */
#include "serve/answer.h"

const ch_style *ch_style_of(ch_form form) {
  return form == CH_CHAT ? &ch_chat_style : form == CH_NATIVE ? &ch_native_style : &ch_completion_style;
}
