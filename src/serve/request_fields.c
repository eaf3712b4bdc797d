/* Reads the fields of a request body. Each field is a row of a table with its type, its range and the APIs
   that accept it. */
#include "serve/request_fields.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/json.h"
#include "serve/request_body.h"

typedef enum field_type { FIELD_BOOL, FIELD_WHOLE, FIELD_NUMBER } field_type;

typedef struct field {
  const char *name;
  field_type type;
  size_t offset;
  double min, max;
  unsigned forms;
} field;

enum { OPENAI = CH_COMPLETION | CH_CHAT, ALL = OPENAI | CH_NATIVE };
static const double boundless = 9.3e18;

#define AT(member) offsetof(ch_request_fields, member)
/* If two fields set one member, the later row wins. */
static const field known_fields[] = {
    {"max_tokens", FIELD_WHOLE, AT(max_tokens), -1, boundless, ALL},
    {"max_completion_tokens", FIELD_WHOLE, AT(max_tokens), -1, boundless, OPENAI},
    {"n_predict", FIELD_WHOLE, AT(max_tokens), -1, boundless, CH_NATIVE},
    {"min_tokens", FIELD_WHOLE, AT(min_tokens), 0, boundless, ALL},
    {"n", FIELD_WHOLE, AT(n), 1, CH_MOST_CHOICES, OPENAI},
    {"temperature", FIELD_NUMBER, AT(temperature), 0, 2, ALL},
    {"top_p", FIELD_NUMBER, AT(top_p), 0, 1, ALL},
    {"top_k", FIELD_WHOLE, AT(top_k), -1, boundless, ALL},
    {"frequency_penalty", FIELD_NUMBER, AT(frequency_penalty), -2, 2, ALL},
    {"presence_penalty", FIELD_NUMBER, AT(presence_penalty), -2, 2, ALL},
    {"seed", FIELD_WHOLE, AT(seed), -boundless, boundless, ALL},
    {"ignore_eos", FIELD_BOOL, AT(ignore_eos), 0, 0, ALL},
    {"stream", FIELD_BOOL, AT(stream), 0, 0, ALL},
    {"cache_prompt", FIELD_BOOL, AT(cache_prompt), 0, 0, ALL},
    {"echo", FIELD_BOOL, AT(echo), 0, 0, CH_COMPLETION},
    {"return_tokens", FIELD_BOOL, AT(return_tokens), 0, 0, CH_NATIVE},
    {"logprobs", FIELD_WHOLE, AT(top), 0, 20, CH_COMPLETION},
    {"n_probs", FIELD_WHOLE, AT(top), 0, 100, CH_NATIVE},
};
enum { FIELDS = sizeof known_fields / sizeof *known_fields };

/* --- fields that would change the answer and are not supported ------------------------------------------ */

/* Values of unsupported fields that have no effect and are accepted, besides null, [] and "". */
enum { NOTHING = 0, ZERO = 1, ONE = 2, IS_FALSE = 4, IS_TRUE = 8, TEXT_FORMAT = 16, TEXT_MODE = 32 };

static const struct {
  const char *name;
  unsigned neutral;
} unsupported[] = {{"tools", NOTHING},
                   {"functions", NOTHING},
                   {"response_format", TEXT_FORMAT},
                   {"grammar", NOTHING},
                   {"json_schema", NOTHING},
                   {"structured_outputs", NOTHING},
                   {"guided_json", NOTHING},
                   {"guided_regex", NOTHING},
                   {"guided_choice", NOTHING},
                   {"guided_grammar", NOTHING},
                   {"regex", NOTHING},
                   {"ebnf", NOTHING},
                   {"suffix", NOTHING},
                   {"min_p", ZERO},
                   {"top_a", ZERO},
                   {"repetition_penalty", ONE},
                   {"repeat_penalty", ONE},
                   {"typical_p", ONE},
                   {"tfs_z", ONE},
                   {"mirostat", ZERO},
                   {"dynatemp_range", ZERO},
                   {"dry_multiplier", ZERO},
                   {"xtc_probability", ZERO},
                   {"samplers", NOTHING},
                   {"lora", NOTHING},
                   {"image_data", NOTHING},
                   {"audio", NOTHING},
                   {"modalities", TEXT_MODE},
                   {"prediction", NOTHING},
                   {"web_search_options", NOTHING},
                   {"use_beam_search", IS_FALSE},
                   {"prompt_logprobs", NOTHING},
                   {"truncate_prompt_tokens", NOTHING},
                   {"prompt_embeds", NOTHING},
                   {"stop_token_ids", NOTHING},
                   {"bad_words", NOTHING},
                   {"allowed_token_ids", NOTHING},
                   {"logits_processors", NOTHING},
                   {"include_stop_str_in_output", IS_FALSE},
                   {"skip_special_tokens", IS_TRUE},
                   {"post_sampling_probs", IS_FALSE},
                   {"response_fields", NOTHING},
                   {"t_max_predict_ms", ZERO},
                   {"n_indent", ZERO}};
enum { UNSUPPORTED = sizeof unsupported / sizeof *unsupported };

/* Returns true for {"type": "text"}. */
static bool is_text_format(const json_t *value) {
  const char *type = json_string_value(json_object_get(value, "type"));
  return type && strcmp(type, "text") == 0;
}

/* Returns true for ["text"]. */
static bool is_text_mode(const json_t *value) {
  const char *mode = json_string_value(json_array_get(value, 0));
  return json_array_size(value) == 1 && mode && strcmp(mode, "text") == 0;
}

static bool asks_nothing(const json_t *value, unsigned neutral) {
  if (json_is_array(value) && json_array_size(value) == 0) return true;
  if (json_is_string(value) && json_string_length(value) == 0) return true;
  if (json_is_number(value))
    return (neutral & ZERO && json_number_value(value) == 0) ||
           (neutral & ONE && json_number_value(value) == 1);
  if (json_is_false(value)) return neutral & IS_FALSE;
  if (json_is_true(value)) return neutral & IS_TRUE;
  return (neutral & TEXT_FORMAT && is_text_format(value)) || (neutral & TEXT_MODE && is_text_mode(value));
}

/* Returns true if `name` is "tools" or "functions" and the request chooses "none" of them. The field is then
   accepted. */
static bool is_off(const json_t *body, const char *name) {
  bool tools = strcmp(name, "tools") == 0;
  if (!tools && strcmp(name, "functions") != 0) return false;
  const char *choice = json_string_value(json_object_get(body, tools ? "tool_choice" : "function_call"));
  return choice && strcmp(choice, "none") == 0;
}

static bool refuse_unsupported(const json_t *body, ch_refusal *refusal) {
  for (int i = 0; i < UNSUPPORTED; i++) {
    const json_t *value = ch_body_member(body, unsupported[i].name);
    if (value && !asks_nothing(value, unsupported[i].neutral) && !is_off(body, unsupported[i].name))
      return ch_refuse(refusal, 400, "unsupported_parameter", unsupported[i].name,
                       "'%s' is not supported by this server; leave it out.", unsupported[i].name);
  }
  return true;
}

/* --- single fields -------------------------------------------------------------------------------------- */

static bool refuse_type(ch_refusal *refusal, const char *name, const char *wanted, const json_t *value) {
  char shown[100];
  return ch_refuse(refusal, 400, "invalid_type", name, "'%s' is %s; it must be %s.", name,
                   ch_json_show(value, shown, sizeof shown), wanted);
}

static bool refuse_range(ch_refusal *refusal, const field *f, const json_t *value) {
  char shown[100];
  ch_json_show(value, shown, sizeof shown);
  if (f->max == boundless)
    return ch_refuse(refusal, 400, "out_of_range", f->name, "'%s' is %s; it must be at least %.10g.", f->name,
                     shown, f->min);
  return ch_refuse(refusal, 400, "out_of_range", f->name, "'%s' is %s; it must be from %.10g to %.10g.",
                   f->name, shown, f->min, f->max);
}

bool ch_field_bool(const json_t *body, const char *name, bool *value, ch_refusal *refusal) {
  const json_t *given = ch_body_member(body, name);
  if (!given) return true;
  if (!json_is_boolean(given)) return refuse_type(refusal, name, "true or false", given);
  *value = json_is_true(given);
  return true;
}

bool ch_field_text(const json_t *body, const char *name, const char **text, size_t *size,
                   ch_refusal *refusal) {
  const json_t *given = ch_body_member(body, name);
  *text = NULL;
  *size = 0;
  if (!given) return true;
  if (!json_is_string(given)) return refuse_type(refusal, name, "a string", given);
  *text = json_string_value(given);
  *size = json_string_length(given);
  return true;
}

static bool read_field(const json_t *body, const field *f, ch_request_fields *fields, ch_refusal *refusal) {
  void *at = (char *)fields + f->offset;
  const json_t *given = ch_body_member(body, f->name);
  int64_t whole = 0;
  double number = 0;
  if (f->type == FIELD_BOOL) return ch_field_bool(body, f->name, at, refusal);
  if (!given) return true;
  if (f->type == FIELD_WHOLE && !ch_json_whole(given, &whole))
    return refuse_type(refusal, f->name, "a whole number", given);
  if (f->type == FIELD_NUMBER && !json_is_number(given))
    return refuse_type(refusal, f->name, "a number", given);
  number = f->type == FIELD_WHOLE ? (double)whole : json_number_value(given);
  if (number < f->min || number > f->max) return refuse_range(refusal, f, given);
  if (f->type == FIELD_WHOLE)
    memcpy(at, &whole, sizeof whole);
  else
    memcpy(at, &number, sizeof number);
  return true;
}

/* --- stop strings, biases ------------------------------------------------------------------------------- */

static bool add_stop(const json_t *value, ch_request_fields *fields, ch_refusal *refusal) {
  if (!json_is_string(value)) return refuse_type(refusal, "stop", "a string or a list of strings", value);
  size_t size = json_string_length(value);
  if (fields->stop_count == CH_MOST_STOPS || size < 1 || size > CH_LONGEST_STOP)
    return ch_refuse(refusal, 400, "invalid_value", "stop",
                     "'stop' can have up to %d strings of 1 to %d bytes each.", CH_MOST_STOPS,
                     CH_LONGEST_STOP);
  char *copy = strdup(json_string_value(value));
  if (!copy) return ch_refuse_memory(refusal);
  fields->stops[fields->stop_count++] = copy;
  return true;
}

static bool read_stops(const json_t *body, ch_request_fields *fields, ch_refusal *refusal) {
  const json_t *given = ch_body_member(body, "stop");
  if (!given) return true;
  if (!json_is_array(given)) return add_stop(given, fields, refusal);
  for (size_t i = 0; i < json_array_size(given); i++)
    if (!add_stop(json_array_get(given, i), fields, refusal)) return false;
  return true;
}

static bool refuse_bias(ch_refusal *refusal, const char *code) {
  return ch_refuse(
      refusal, 400, code, "logit_bias",
      "'logit_bias' must give up to %d token ids a number from -100 to 100, like {\"50256\": -100}.",
      CH_MOST_BIASES);
}

static bool add_bias(int64_t id, const json_t *value, int64_t vocabulary, ch_request_fields *fields,
                     ch_refusal *refusal) {
  if (json_is_false(value) && fields->form == CH_NATIVE) value = NULL; /* false bans the token in llama.cpp */
  if (value && !json_is_number(value)) return refuse_bias(refusal, "invalid_type");
  double bias = value ? json_number_value(value) : -100;
  if (bias < -100 || bias > 100) return refuse_bias(refusal, "out_of_range");
  if (id < 0 || id >= vocabulary)
    return ch_refuse(refusal, 400, "invalid_value", "logit_bias",
                     "'logit_bias' has the token id %lld, which is out of vocabulary; ids go from 0 to %lld.",
                     (long long)id, (long long)vocabulary - 1);
  fields->biases[fields->bias_count++] = (ch_logit_bias){.token = (int32_t)id, .bias = bias};
  return true;
}

/* Parses a token id in decimal. Returns -1 if the key is not one. */
static int64_t id_of(const char *key) {
  int64_t id = 0;
  if (!*key || strlen(key) > 10 || key[strspn(key, "0123456789")]) return -1;
  for (; *key; key++) id = id * 10 + (*key - '0');
  return id;
}

static int by_token(const void *a, const void *b) {
  const ch_logit_bias *x = a, *y = b;
  return (x->token > y->token) - (x->token < y->token);
}

/* Sorts the biases by token, and replaces those of one token by their sum. */
static void add_up_biases(ch_request_fields *fields) {
  size_t kept = 0;
  qsort(fields->biases, fields->bias_count, sizeof *fields->biases, by_token);
  for (size_t i = 0; i < fields->bias_count; i++)
    if (kept > 0 && fields->biases[kept - 1].token == fields->biases[i].token)
      fields->biases[kept - 1].bias += fields->biases[i].bias;
    else
      fields->biases[kept++] = fields->biases[i];
  fields->bias_count = kept;
}

/* Reads an object {"id": bias}; /completion also accepts a list of [id, bias]. */
static bool read_biases(json_t *body, int64_t vocabulary, ch_request_fields *fields, ch_refusal *refusal) {
  json_t *given = ch_body_member(body, "logit_bias"), *value;
  const char *key;
  bool list = json_is_array(given) && (fields->form == CH_NATIVE || json_array_size(given) == 0);
  if (!given) return true;
  if (!list && !json_is_object(given)) return refuse_bias(refusal, "invalid_type");
  size_t count = list ? json_array_size(given) : json_object_size(given);
  if (count > CH_MOST_BIASES) return refuse_bias(refusal, "invalid_value");
  fields->biases = malloc((count + 1) * sizeof *fields->biases);
  if (!fields->biases) return ch_refuse_memory(refusal);
  if (!list) {
    json_object_foreach(given, key, value) {
      if (id_of(key) < 0) return refuse_bias(refusal, "invalid_value");
      if (!add_bias(id_of(key), value, vocabulary, fields, refusal)) return false;
    }
  }
  for (size_t i = 0; list && i < count; i++) {
    const json_t *pair = json_array_get(given, i);
    int64_t id;
    if (json_array_size(pair) != 2 || !ch_json_whole(json_array_get(pair, 0), &id))
      return refuse_bias(refusal, "invalid_type");
    if (!add_bias(id, json_array_get(pair, 1), vocabulary, fields, refusal)) return false;
  }
  add_up_biases(fields);
  return true;
}

/* --- fields that depend on each other ------------------------------------------------------------------- */

/* Reads the probabilities of chat completions, which accept `top_logprobs` only together with `logprobs`. */
static bool read_chat_probabilities(const json_t *body, ch_request_fields *fields, ch_refusal *refusal) {
  static const field top = {"top_logprobs", FIELD_WHOLE, AT(top), 0, 20, CH_CHAT};
  bool wanted = false;
  if (!ch_field_bool(body, "logprobs", &wanted, refusal)) return false;
  if (ch_body_member(body, "top_logprobs") && !wanted)
    return ch_refuse(refusal, 400, "invalid_value", "top_logprobs", "'top_logprobs' needs 'logprobs': true.");
  fields->top = wanted ? 0 : -1;
  return read_field(body, &top, fields, refusal);
}

static bool read_stream_options(const json_t *body, ch_request_fields *fields, ch_refusal *refusal) {
  const json_t *given = ch_body_member(body, "stream_options");
  if (!given) return true;
  if (!json_is_object(given)) return refuse_type(refusal, "stream_options", "an object", given);
  if (!fields->stream)
    return ch_refuse(refusal, 400, "invalid_value", "stream_options",
                     "'stream_options' needs 'stream': true.");
  return ch_field_bool(given, "include_usage", &fields->include_usage, refusal) &&
         ch_field_bool(given, "continuous_usage_stats", &fields->continuous_usage, refusal);
}

static bool check_best_of(const json_t *body, const ch_request_fields *fields, ch_refusal *refusal) {
  const json_t *given = ch_body_member(body, "best_of");
  int64_t best;
  if (!given) return true;
  if (!ch_json_whole(given, &best)) return refuse_type(refusal, "best_of", "a whole number", given);
  if (best == fields->n) return true;
  return ch_refuse(refusal, 400, "unsupported_parameter", "best_of",
                   "'best_of' other than 'n' is not supported; leave it out.");
}

static void set_defaults(ch_form form, ch_request_fields *fields) {
  bool native = form == CH_NATIVE;
  *fields = (ch_request_fields){.form = form,
                                .max_tokens = form == CH_COMPLETION ? 16 : -1,
                                .n = 1,
                                .top_k = native ? 40 : 0,
                                .seed = -1,
                                .top = -1,
                                .temperature = native ? 0.8 : 1,
                                .top_p = native ? 0.95 : 1,
                                .cache_prompt = true};
}

bool ch_request_fields_read(json_t *body, ch_form form, int64_t vocabulary, ch_request_fields *fields,
                            ch_refusal *refusal) {
  set_defaults(form, fields);
  for (int i = 0; i < FIELDS; i++)
    if (known_fields[i].forms & form && !read_field(body, &known_fields[i], fields, refusal)) return false;
  if (form == CH_NATIVE && fields->top == 0) fields->top = -1;
  if (form == CH_CHAT && !read_chat_probabilities(body, fields, refusal)) return false;
  if (form != CH_NATIVE &&
      !(read_stream_options(body, fields, refusal) && check_best_of(body, fields, refusal)))
    return false;
  if (!read_stops(body, fields, refusal) || !read_biases(body, vocabulary, fields, refusal) ||
      !refuse_unsupported(body, refusal))
    return false;
  if (fields->seed < 0) {
    uint32_t drawn;
    if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) drawn = 1;
    fields->seed = drawn;
  }
  return true;
}

void ch_request_fields_free(ch_request_fields *fields) {
  for (int i = 0; i < fields->stop_count; i++) free(fields->stops[i]);
  free(fields->biases);
  *fields = (ch_request_fields){0};
}
