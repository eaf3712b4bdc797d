/* Tests command tables: parsing of options and arguments, wrong usage, help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/help.h"
#include "cli/parse.h"

typedef struct arguments {
  const char *positional[CH_POSITIONAL_MAX];
  bool json;
  const char *prompt, *out, *schedule;
  int64_t tokens, layers;
  double rate, shift;
} arguments;

static const char *const schedules[] = {"cosine", "constant", NULL};

#define AT(member) .offset = offsetof(arguments, member)
static const ch_option options[] = {
    {.name = "", .help = "First"},
    {.name = "json", .type = CH_OPTION_FLAG, AT(json), .help = "Print JSON."},
    {.name = "prompt", .type = CH_OPTION_TEXT, AT(prompt), .metavar = "TEXT", .help = "A text."},
    {.name = "out", .type = CH_OPTION_PATH, AT(out), .metavar = "DIR", .required = true, .help = "Where to."},
    {.name = "", .help = "Second"},
    {.name = "tokens",
     .type = CH_OPTION_COUNT,
     AT(tokens),
     .metavar = "COUNT",
     .default_value = "10k",
     .alias = "max-tokens",
     .help = "n."},
    {.name = "layers",
     .type = CH_OPTION_COUNT,
     AT(layers),
     .min = 1,
     .max = -1,
     .default_value = "2",
     .help = "n."},
    {.name = "rate",
     .type = CH_OPTION_NUMBER,
     AT(rate),
     .min = 0,
     .max = 1,
     .default_value = "0.5",
     .help = "x."},
    {.name = "shift", .type = CH_OPTION_NUMBER, AT(shift), .help = "x."},
    {.name = "schedule",
     .type = CH_OPTION_CHOICE,
     AT(schedule),
     .choices = schedules,
     .default_value = "cosine"},
    {.name = NULL},
};

static const ch_command command = {.name = "try",
                                   .positional = "MODEL [FILE]",
                                   .summary = "Try.",
                                   .options = options,
                                   .arguments_size = sizeof(arguments)};

enum { MOST = 12 };

static ch_status parse(const char *const *words, ch_command_line *parsed, ch_error *error) {
  int count = 0;
  while (words[count]) count++;
  return ch_parse_command_line(&command, count, (char **)(uintptr_t)words, parsed, error);
}

static void values_are_taken_from_the_next_word_or_after_an_equals_sign(void **state) {
  (void)state;
  ch_command_line parsed;
  ch_error error;
  const char *const words[] = {
      "m",      "--tokens=1.5M", "--prompt", "-x -- y",    "--out",    "d",        "f",
      "--json", "--shift",       "-2.5",     "--schedule", "constant", "--rate=1", NULL};
  assert_int_equal(parse(words, &parsed, &error), CH_OK);
  const arguments *a = parsed.arguments;
  assert_string_equal(a->positional[0], "m");
  assert_string_equal(a->positional[1], "f");
  assert_null(a->positional[2]);
  assert_true(a->json && a->tokens == 1500000 && a->shift == -2.5 && a->rate == 1);
  assert_string_equal(a->prompt, "-x -- y");
  assert_string_equal(a->out, "d");
  assert_string_equal(a->schedule, "constant");
  ch_parsed_free(&parsed);
}

static void defaults_stand_as_if_typed_and_are_not_given(void **state) {
  (void)state;
  ch_command_line parsed;
  ch_error error;
  const char *const words[] = {"--out=d", "m", NULL};
  assert_int_equal(parse(words, &parsed, &error), CH_OK);
  const arguments *a = parsed.arguments;
  assert_true(!a->json && a->tokens == 10000 && a->layers == 2 && a->rate == 0.5 && a->shift == 0);
  assert_null(a->prompt);
  assert_string_equal(a->schedule, "cosine");
  assert_true(parsed.given[3]);
  assert_false(parsed.given[5]);
  ch_parsed_free(&parsed);
}

static void an_alias_is_the_same_option(void **state) {
  (void)state;
  ch_command_line parsed;
  ch_error error;
  const char *const words[] = {"--out=d", "m", "--max-tokens", "3", NULL};
  assert_int_equal(parse(words, &parsed, &error), CH_OK);
  assert_true(((arguments *)parsed.arguments)->tokens == 3 && parsed.given[5]);
  ch_parsed_free(&parsed);
}

static void two_dashes_end_the_options_and_one_dash_is_an_argument(void **state) {
  (void)state;
  ch_command_line parsed;
  ch_error error;
  const char *const words[] = {"--out=d", "-", "--", "--json", NULL};
  assert_int_equal(parse(words, &parsed, &error), CH_OK);
  const arguments *a = parsed.arguments;
  assert_string_equal(a->positional[0], "-");
  assert_string_equal(a->positional[1], "--json");
  assert_false(a->json);
  ch_parsed_free(&parsed);
}

static void the_last_of_repeated_options_counts(void **state) {
  (void)state;
  ch_command_line parsed;
  ch_error error;
  const char *const words[] = {"m", "--out=a", "--out=b", NULL};
  assert_int_equal(parse(words, &parsed, &error), CH_OK);
  assert_string_equal(((arguments *)parsed.arguments)->out, "b");
  ch_parsed_free(&parsed);
}

static void help_wins_over_what_is_missing(void **state) {
  (void)state;
  ch_command_line parsed;
  ch_error error;
  const char *const words[] = {"--help", NULL};
  assert_int_equal(parse(words, &parsed, &error), CH_OK);
  assert_true(parsed.help);
  ch_parsed_free(&parsed);
}

static void wrong_usage_is_one_sentence_that_says_what_is_right(void **state) {
  (void)state;
  static const struct {
    const char *words[MOST], *part;
  } cases[] = {
      {{NULL}, "MODEL is missing"},
      {{"m", NULL}, "--out is missing"},
      {{"m", "f", "x", "--out=d", NULL}, "unexpected argument 'x'"},
      {{"m", "--out=d", "--tokns", "3", NULL}, "did you mean --tokens?"},
      {{"m", "--out=d", "--tokns=3", NULL}, "unknown option --tokns; did you mean --tokens?"},
      {{"m", "--sched", "constant", NULL}, "did you mean --schedule?"},
      {{"m", "--TOKENS", "3", NULL}, "did you mean --tokens?"},
      {{"m", "--flash", NULL}, "`crosshead try --help` lists the options"},
      {{"m", "--zzzzzzzz", NULL}, "--help"},
      {{"m", "-o", "d", NULL}, "unknown option -o"},
      {{"m", "-json", NULL}, "did you mean --json?"},
      {{"m", "--=", NULL}, "unknown option"},
      {{"m", "--out", NULL}, "--out needs a value"},
      {{"m", "--out", "--json", NULL}, "--out needs a value"},
      {{"m", "--out=", NULL}, "the name is empty"},
      {{"m", "--out=d", "--json=yes", NULL}, "--json has no value"},
      {{"m", "--out=d", "--tokens=ten", NULL}, "'ten' is not a count"},
      {{"m", "--out=d", "--tokens=-1", NULL}, "'-1' is not a count"},
      {{"m", "--out=d", "--tokens=", NULL}, "'' is not a count"},
      {{"m", "--out=d", "--layers=0", NULL}, "at least 1"},
      {{"m", "--out=d", "--rate=1.5", NULL}, "from 0 to 1"},
      {{"m", "--out=d", "--rate=nan", NULL}, "'nan' is not a finite number"},
      {{"m", "--out=d", "--rate=-0.1", NULL}, "from 0 to 1"},
      {{"m", "--out=d", "--schedule=cosin", NULL}, "one of cosine or constant"},
      {{"m", "--out=d", "--", "f", "--json", NULL}, "unexpected argument '--json'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ch_command_line parsed;
    ch_error error = {0};
    assert_int_equal(parse(cases[i].words, &parsed, &error), CH_ERROR_ARGUMENT);
    if (!strstr(error.message, cases[i].part)) fail_msg("case %zu: %s", i, error.message);
    assert_null(strchr(error.message, '\n'));
  }
}

static void an_unknown_option_of_any_length_is_an_error(void **state) {
  (void)state;
  char word[5000];
  memset(word, 'x', sizeof word);
  word[0] = word[1] = '-';
  word[sizeof word - 1] = 0;
  const char *const words[] = {"m", word, NULL};
  ch_command_line parsed;
  ch_error error;
  assert_int_equal(parse(words, &parsed, &error), CH_ERROR_ARGUMENT);
}

static const ch_option *find_option(const ch_command *one, const char *name) {
  for (const ch_option *o = one->options; o && o->name; o++)
    if (strcmp(o->name, name) == 0) return o;
  return NULL;
}

/* Checks that the commands that write files, and no others, have --force, that those that compute, and no others, have
   --threads, and that --seed is 1 by default. */
static void common_options_are_everywhere(void **state) {
  (void)state;
  static const char *const outputs[] = {"out", "trace", "log-samples", NULL};
  static const char *const computing[] = {
      "compare", "sweep",    "train", "eval",   "generate", "forward",         "bench", "compress",
      "absorb",  "quantize", "serve", "import", "export",   "tokenizer train", "plan",  NULL};
  for (const ch_command *const *c = ch_commands; *c; c++) {
    bool writes = false;
    for (const char *const *name = outputs; *name; name++) {
      const ch_option *o = find_option(*c, *name);
      if (o && !o->writes) fail_msg("%s --%s: nothing looks after what stands there", (*c)->name, *name);
      writes |= o != NULL;
    }
    if (writes != (find_option(*c, "force") != NULL)) fail_msg("%s and --force", (*c)->name);
    bool computes = false;
    for (const char *const *name = computing; *name; name++) computes |= strcmp((*c)->name, *name) == 0;
    if (computes != (find_option(*c, "threads") != NULL)) fail_msg("%s and --threads", (*c)->name);
    const ch_option *seed = find_option(*c, "seed");
    if (seed) assert_string_equal(seed->default_value, "1");
  }
}

/* Checks every registered table: defaults parse, names are unique, and texts exist. */
static void every_command_is_well_formed(void **state) {
  (void)state;
  for (const ch_command *const *c = ch_commands; *c; c++) {
    const ch_command *one = *c;
    assert_true(one->name && one->positional && one->summary && one->run);
    int least, most;
    ch_positional_count(one, &least, &most);
    assert_true(most <= CH_POSITIONAL_MAX);
    assert_true(one->arguments_size >= CH_POSITIONAL_MAX * sizeof(char *));
    for (const ch_option *o = one->options; o && o->name; o++) {
      if (!o->help || !*o->help) fail_msg("%s --%s has no help", one->name, o->name);
      if (!*o->name) continue;
      assert_true(o->offset >= CH_POSITIONAL_MAX * sizeof(char *) && o->offset < one->arguments_size);
      assert_true(o->type != CH_OPTION_CHOICE || o->choices);
      assert_true(o->type != CH_OPTION_FLAG || !o->default_value);
      for (const ch_option *p = one->options; p < o; p++)
        if (strcmp(p->name, o->name) == 0 || (p->alias && strcmp(p->alias, o->name) == 0) ||
            (o->alias && strcmp(p->name, o->alias) == 0))
          fail_msg("%s has --%s twice", one->name, o->name);
    }
    char *help[] = {"--help"};
    ch_command_line parsed;
    ch_error error = {0};
    if (ch_parse_command_line(one, 1, help, &parsed, &error) != CH_OK)
      fail_msg("%s: %s", one->name, error.message);
    assert_true(parsed.help);
    ch_parsed_free(&parsed);
  }
}

static void the_manual_and_the_scripts_know_every_command(void **state) {
  (void)state;
  ch_text texts[4] = {{0}};
  ch_manual(&texts[0]);
  ch_completion_bash(&texts[1]);
  ch_completion_zsh(&texts[2]);
  ch_completion_fish(&texts[3]);
  for (int i = 0; i < 4; i++) {
    for (const ch_command *const *c = ch_commands; *c; c++)
      for (const char *p = (*c)->name; *p;) {
        size_t length = strcspn(p, " ");
        char word[2 * 64];
        size_t used = 0;
        for (size_t at = 0; at < length && used + 2 < sizeof word; at++) {
          if (i == 0 && p[at] == '-') word[used++] = '\\'; /* as manual pages spell it */
          word[used++] = p[at];
        }
        word[used] = '\0';
        assert_non_null(strstr(texts[i].data, word));
        p += length;
        p += *p == ' ';
      }
    assert_false(texts[i].failed);
    ch_text_free(&texts[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_taken_from_the_next_word_or_after_an_equals_sign),
      cmocka_unit_test(defaults_stand_as_if_typed_and_are_not_given),
      cmocka_unit_test(an_alias_is_the_same_option),
      cmocka_unit_test(two_dashes_end_the_options_and_one_dash_is_an_argument),
      cmocka_unit_test(the_last_of_repeated_options_counts),
      cmocka_unit_test(help_wins_over_what_is_missing),
      cmocka_unit_test(wrong_usage_is_one_sentence_that_says_what_is_right),
      cmocka_unit_test(an_unknown_option_of_any_length_is_an_error),
      cmocka_unit_test(common_options_are_everywhere),
      cmocka_unit_test(every_command_is_well_formed),
      cmocka_unit_test(the_manual_and_the_scripts_know_every_command),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
