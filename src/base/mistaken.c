/* Recognises files and directories that are given by mistake: files by their first bytes, directories by the names of
 * their files. */
#define _GNU_SOURCE
#include "base/mistaken.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "base/utf8.h"

static bool begins(const char *data, size_t size, const char *with) {
  size_t length = strlen(with);
  return size >= length && strncasecmp(data, with, length) == 0;
}

bool ch_is_lfs_pointer(const void *data, size_t size) {
  return begins(data, size, "version https://git-lfs.github.com/spec/") ||
         begins(data, size, "version https://hawser.github.com/spec/");
}

/* --- files ---------------------------------------------------------------------------------------------- */

static bool is_page(const char *data, size_t size) {
  static const char *const tags[] = {"<!doctype html", "<html", "<head", "<body", "<?xml", "<!--"};
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
    if (begins(data, size, tags[i])) return true;
  return false;
}

static bool is_text(const char *data, size_t size) {
  /* the last character may be cut */
  if (ch_utf8_valid_prefix((const unsigned char *)data, size) + 4 <= size) return false;
  for (size_t i = 0; i < size; i++)
    if ((unsigned char)data[i] < ' ' && !isspace((unsigned char)data[i])) return false;
  return size > 0;
}

/* Returns true for PyTorch's files: zip archives, and pickles of protocols 2 to 5. */
static bool is_pickled(const unsigned char *data, size_t size) {
  if (size < 4) return false;
  return memcmp(data, "PK\3\4", 4) == 0 || (data[0] == 0x80 && data[1] >= 2 && data[1] <= 5 && data[2] != 0);
}

ch_status ch_refuse_mistaken(const char *where, const void *data, size_t size, bool text, ch_error *error) {
  enum { LOOK = 512, SHOWN = 40 };
  const char *at = data;
  size_t left = size < LOOK ? size : LOOK;
  if (left >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) at += 3, left -= 3;
  while (left > 0 && isspace((unsigned char)*at)) at++, left--;
  if (ch_is_lfs_pointer(at, left))
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is a Git LFS pointer, not the file itself; `git lfs pull` fetches the file", where);
  if (begins(at, left, "../") && memmem(at, left, "/annex/objects/", strlen("/annex/objects/")))
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is a git-annex pointer, not the file itself; `git annex get` fetches the file", where);
  if (is_page(at, left))
    return ch_fail(
        error, CH_ERROR_FORMAT,
        "%s is a web page, not the file itself; download the file (on Hugging Face the address has "
        "\"resolve\" where the page's has \"blob\")",
        where);
  if (is_pickled(data, size))
    return ch_fail(error, CH_ERROR_FORMAT,
                   "%s is a PyTorch file of pickled objects, which could run code and is not supported; save "
                   "the model as safetensors with transformers: save_pretrained",
                   where);
  if (text || !is_text(at, left)) return CH_OK;
  size_t shown = 0; /* length of the first line; there is no NUL at the end of the bytes */
  while (shown < left && at[shown] != '\r' && at[shown] != '\n') shown++;
  return ch_fail(error, CH_ERROR_FORMAT,
                 "%s is a text that begins with \"%.*s\", not the file itself; download it again", where,
                 (int)(shown < SHOWN ? shown : SHOWN), at);
}

/* --- directories ---------------------------------------------------------------------------------------- */

/* Number of rows of `signs`, from the first, that are searched in a directory with weights. */
enum { SIGNS_BESIDE_WEIGHTS = 3 };
/* File names that show the kind of a directory. A name matches a row if it begins with `first` and ends with `last`.
   The first row that matches counts. */
static const struct {
  const char *first, *last, *what;
} signs[] = {
    {"adapter_config", ".json",
     "holds a LoRA adapter (%s), not a model; merge it into the model it was trained on (peft: "
     "merge_and_unload, then "
     "save_pretrained)"},
    {"adapter_model", "",
     "holds a LoRA adapter (%s), not a model; merge it into the model it was trained on (peft: "
     "merge_and_unload, then "
     "save_pretrained)"},
    {"model_index", ".json", "is a diffusers pipeline (%s), not a language model"},
    {"snapshots", "", "is a Hugging Face cache; the model is in a directory below its \"snapshots\""},
    {"model-0", ".safetensors",
     "holds a part of a model, %s, without its index, model.safetensors.index.json; download that too"},
    {"pytorch_model", "",
     "holds the weights only as %s, PyTorch's pickled objects, which could run code and are not supported; "
     "save the model as safetensors with transformers: "
     "AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(OUT)"},
    {"consolidated", ".pth",
     "holds %s, the format that Meta publishes; download the model in the format of Hugging Face "
     "transformers"},
    {"consolidated", ".safetensors",
     "holds %s, the format that Mistral publishes; download the model in the format of Hugging Face "
     "transformers"},
    {"tf_model", ".h5", "holds the weights only as %s, TensorFlow's; save the model as safetensors"},
    {"flax_model", ".msgpack", "holds the weights only as %s, Flax's; save the model as safetensors"},
    {"", ".gguf", "holds %s; convert it to a model directory with `crosshead import`"},
    {"", ".onnx",
     "holds the weights only as %s, ONNX's; download the model in the format of Hugging Face transformers"},
    {"", ".bin",
     "holds the weights only as %s, which is not supported; save the model as safetensors with transformers: "
     "save_pretrained"},
    {"", ".pt", "holds the weights only as %s, PyTorch's pickled objects; save the model as safetensors"},
    {"", ".pth", "holds the weights only as %s, PyTorch's pickled objects; save the model as safetensors"},
};

/* Returns true for files that a model directory may have and that must not count as a match of `signs`. */
static bool is_beside(const char *name) {
  static const char *const names[] = {"model.safetensors", "tokenizer.bin",          "training_args.bin",
                                      "optimizer.pt",      "scheduler.pt",           "rng_state.pth",
                                      "optimizer.bin",     "checkpoint.safetensors", NULL};
  return ch_in_list(name, names);
}

/* Returns the first row of signs that `name` matches, or the number of rows if no row counts. */
static size_t sign_of(const char *name) {
  size_t row = 0, count = sizeof signs / sizeof *signs;
  while (row < count && (strncmp(name, signs[row].first, strlen(signs[row].first)) != 0 ||
                         !ch_ends_with(name, signs[row].last)))
    row++;
  return is_beside(name) ? count : row;
}

ch_status ch_refuse_directory(const char *directory, bool has_weights, ch_error *error) {
  const size_t count = has_weights ? SIGNS_BESIDE_WEIGHTS : sizeof signs / sizeof *signs;
  size_t best = count;
  char name[256] = "", what[512];
  DIR *listing = opendir(directory);
  for (const struct dirent *entry; listing && (entry = readdir(listing));) {
    size_t row = sign_of(entry->d_name);
    bool better = row < best || (row == best && row < count && strcmp(entry->d_name, name) < 0);
    if (!better || strlen(entry->d_name) >= sizeof name) continue;
    best = row;
    strcpy(name, entry->d_name);
  }
  if (listing) closedir(listing);
  if (best == count) return CH_OK;
  const char *at = strstr(signs[best].what, "%s"), *rest = at ? at + 2 : "";
  size_t before = at ? (size_t)(at - signs[best].what) : strlen(signs[best].what);
  snprintf(what, sizeof what, "%.*s%s%s", (int)before, signs[best].what, at ? name : "", rest);
  return ch_fail(error, CH_ERROR_IO, "%s %s", directory, what);
}
