/* Reads the small learned matrices of trained models (knocking with its gates, head mixes, coefficients of atoms) and
 * turns them into heatmaps. It opens the model files; everything else on the page comes from results. */
#include "report/page_matrices.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "infer/model.h"
#include "report/figure.h"

/* Matrices with more than MOST_SIDE rows or columns are reduced to means of blocks. If the matrices of a family have
 * more than MOST_VALUES values, only some layers are shown. */
enum { MOST_SIDE = 96, MOST_VALUES = 40000 };

typedef enum family { KNOCKING, MIXES, COEFFICIENTS, FAMILIES } family;

typedef struct matrix {
  family family;
  int layer;
  const char *name; /* end of the tensor's name, after "self_attn." */
  const ch_tensor *tensor;
  int64_t head; /* index of the head if the tensor has a matrix per head; else -1 */
} matrix;

/* Recognises a tensor by its name; returns false if it is not shown. */
static bool recognise(const char *name, matrix *m) {
  int layer, at = 0;
  if (sscanf(name, "model.layers.%d.self_attn.%n", &layer, &at) != 1 || at == 0) return false;
  m->layer = layer;
  m->name = name + at;
  if (strstr(m->name, "_knock."))
    m->family = KNOCKING;
  else if (ch_ends_with(m->name, "_mix.weight"))
    m->family = MIXES;
  else if (ch_ends_with(m->name, ".coefficients"))
    m->family = COEFFICIENTS;
  else
    return false;
  return true;
}

/* --- values ------------------------------------------------------------------------------------------------------ */

/* Returns the mean of a block of the matrix. */
static double block(const float *data, int64_t columns, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
  double sum = 0;
  for (int64_t r = r0; r < r1; r++)
    for (int64_t c = c0; c < c1; c++) sum += data[r * columns + c];
  return sum / (double)((r1 - r0) * (c1 - c0));
}

/* Returns the number of rows or columns that the heatmap of a matrix with `count` of them has. */
static int64_t shown(int64_t count) {
  return count < MOST_SIDE ? count : MOST_SIDE;
}

/* Returns the matrix as a list of rows. Raises *most to the largest absolute value shown, if that is larger. */
static json_t *values_of(const float *data, int64_t rows, int64_t columns, double *most) {
  json_t *list = json_array();
  int64_t height = shown(rows), width = shown(columns);
  for (int64_t r = 0; r < height; r++) {
    json_t *row = json_array();
    for (int64_t c = 0; c < width; c++) {
      double value = block(data, columns, r * rows / height, (r + 1) * rows / height, c * columns / width,
                           (c + 1) * columns / width);
      *most = fmax(*most, fabs(value));
      json_array_append_new(row, json_real(round(value * 1e4) / 1e4));
    }
    json_array_append_new(list, row);
  }
  return list;
}

static void matrix_shape(const ch_tensor *tensor, int64_t *rows, int64_t *columns) {
  *rows = tensor->rank > 1 ? tensor->shape[tensor->rank - 2] : 1;
  *columns = tensor->shape[tensor->rank - 1];
}

static const float *data_of(const matrix *m) {
  int64_t rows, columns;
  matrix_shape(m->tensor, &rows, &columns);
  return (const float *)m->tensor->data + (m->head > 0 ? m->head * rows * columns : 0);
}

/* --- panels ------------------------------------------------------------------------------------------------------ */

typedef struct matrix_list {
  matrix *rows;
  int count;
} matrix_list;

static int of_family(const matrix_list *all, family which, int layer) {
  int n = 0;
  for (int i = 0; i < all->count; i++)
    n += all->rows[i].family == which && (layer < 0 || all->rows[i].layer == layer);
  return n;
}

/* Returns the distance between layers that are shown. */
static int stride_of(const matrix_list *all, family which) {
  double values = 0;
  for (int i = 0; i < all->count; i++) {
    int64_t rows, columns;
    if (all->rows[i].family != which) continue;
    matrix_shape(all->rows[i].tensor, &rows, &columns);
    values += (double)(shown(rows) * shown(columns));
  }
  return (int)ceil(values / MOST_VALUES);
}

/* Returns "layer 2: v_knock.up" or "layer 2: v_knock.up, head 1". */
static json_t *title_of(const matrix *m) {
  int length = (int)strlen(m->name);
  if (ch_ends_with(m->name, ".weight")) length -= 7;
  if (m->head >= 0)
    return json_sprintf("layer %d: %.*s, head %lld", m->layer, length, m->name, (long long)m->head);
  return json_sprintf("layer %d: %.*s", m->layer, length, m->name);
}

/* Returns one panel per matrix of the shown layers. Gates use scale 1, all other matrices scale 0. */
static json_t *panels_of(const matrix_list *all, family which, double *most, double *most_of_gates) {
  json_t *panels = json_array();
  int stride = stride_of(all, which);
  for (int i = 0; i < all->count; i++) {
    const matrix *m = &all->rows[i];
    int64_t rows, columns;
    if (m->family != which || (stride > 1 && m->layer % stride)) continue;
    matrix_shape(m->tensor, &rows, &columns);
    bool gate = which == KNOCKING && strstr(m->name, ".gate.") != NULL;
    json_t *panel = json_pack("{s:o, s:o}", "title", title_of(m), "values",
                              values_of(data_of(m), rows, columns, gate ? most_of_gates : most));
    if (gate) json_object_set_new(panel, "scale", json_integer(1));
    json_array_append_new(panels, panel);
  }
  return panels;
}

/* Returns one panel per projection, with one row of coefficients per layer. */
static json_t *coefficient_panels(const matrix_list *all, double *most) {
  json_t *panels = json_array();
  for (int i = 0; i < all->count; i++) {
    const matrix *first = &all->rows[i];
    json_t *values = json_array();
    bool earlier = false;
    for (int k = 0; k < i && !earlier; k++)
      earlier = all->rows[k].family == COEFFICIENTS && strcmp(all->rows[k].name, first->name) == 0;
    for (int k = i; first->family == COEFFICIENTS && !earlier && k < all->count; k++) {
      if (all->rows[k].family != COEFFICIENTS || strcmp(all->rows[k].name, first->name) != 0) continue;
      json_t *row = values_of(all->rows[k].tensor->data, 1, all->rows[k].tensor->shape[0], most);
      json_array_extend(values, row);
      json_decref(row);
    }
    if (json_array_size(values))
      json_array_append_new(panels,
                            json_pack("{s:o, s:o}", "title",
                                      json_sprintf("%.*s", (int)strcspn(first->name, "."), first->name),
                                      "values", values));
    else
      json_decref(values);
  }
  return panels;
}

static json_t *symmetric(const char *name, double most) {
  if (!(most > 0)) most = 1;
  return json_pack("{s:s, s:f, s:f, s:s}", "name", name, "low", -most, "high", most, "scheme", "blueorange");
}

static json_t *figure_of(const matrix_list *all, family which, const char *name, int rank) {
  static const char *const titles[] = {"Knocking projections of %s", "Head mixes of %s",
                                       "Coefficients of the shared atoms of %s"};
  static const char *const notes[] = {
      "Rows are outputs, columns inputs. Projections start as the identity and are shown clipped to 0 and 1; "
      "gates start at 0 and are not clipped.",
      "Rows are the heads that attention uses, columns what they are mixed from.",
      "Each row is a layer and each column an atom. A layer's matrix is the sum of the atoms, weighted by "
      "its row."};
  static const char *const ids[] = {"knocking", "mixes", "coefficients"};
  double most = 0, most_of_gates = 0;
  json_t *panels =
      which == COEFFICIENTS ? coefficient_panels(all, &most) : panels_of(all, which, &most, &most_of_gates);
  json_t *scales = json_array();
  json_array_append_new(scales, which == KNOCKING
                                    ? json_pack("{s:s, s:i, s:i, s:s}", "name", "projections, clipped", "low",
                                                0, "high", 1, "scheme", "viridis")
                                    : symmetric("weight", most));
  if (most_of_gates > 0) json_array_append_new(scales, symmetric("gates", most_of_gates));
  int columns =
      which == COEFFICIENTS ? (int)json_array_size(panels) : of_family(all, which, all->rows[0].layer);
  return json_pack("{s:o, s:s, s:o, s:s, s:o, s:i, s:o}", "id", json_sprintf("%s-%d", ids[which], rank),
                   "kind", "heatmaps", "title", json_sprintf(titles[which], name), "note", notes[which],
                   "scales", scales, "columns", columns > 0 ? columns : 1, "panels", panels);
}

/* --- models ------------------------------------------------------------------------------------------------------ */

static int64_t matrices_in(const ch_tensor *tensor) {
  return tensor->rank == 3 ? tensor->shape[0] : 1;
}

static void find_matrices(const ch_model *model, matrix_list *all) {
  for (int i = 0; i < model->params.count; i++) {
    const ch_tensor *tensor = &model->weights.tensors[i];
    matrix m = {.tensor = tensor, .head = -1};
    if (!recognise(model->params.rows[i].name, &m) || tensor->dtype != CH_F32) continue;
    for (int64_t head = 0; head < matrices_in(tensor); head++) {
      if (tensor->rank == 3) m.head = head;
      all->rows[all->count++] = m;
    }
  }
}

/* Returns an upper bound of the number of matrices in a model. */
static size_t most_matrices(const ch_model *model) {
  size_t most = 1;
  for (int i = 0; i < model->params.count; i++) most += (size_t)matrices_in(&model->weights.tensors[i]);
  return most;
}

static void put_model(const ch_model *model, const char *name, int rank, ch_text *html) {
  matrix_list all = {calloc(most_matrices(model), sizeof *all.rows), 0};
  if (!all.rows) {
    html->failed = true;
    return;
  }
  find_matrices(model, &all);
  for (family which = 0; which < FAMILIES; which++)
    if (of_family(&all, which, -1)) ch_page_figure(figure_of(&all, which, name, rank), html);
  free(all.rows);
}

void ch_matrices_put(const ch_summary *summary, const char *out, ch_text *html) {
  for (int i = 0; out && i < summary->count; i++) {
    const ch_group *group = &summary->groups[i];
    char *directory = ch_path_join(out, group->runs[0]->directory);
    ch_model *model = NULL;
    ch_error error;
    /* A model that is missing or cannot be read is skipped. The report is still written. */
    if (directory && ch_model_load(directory, CH_WEIGHTS_F32, &model, &error) == CH_OK) {
      if (ch_model_materialise(model, CH_MATERIALISE_INFERENCE, &error) == CH_OK)
        put_model(model, group->name, i, html);
      ch_model_unload(model);
    }
    free(directory);
  }
}
