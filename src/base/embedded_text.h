/* Texts of the source tree that are part of the program. cmake/embed.cmake writes them into an object
 * file. */
#ifndef CH_BASE_EMBEDDED_TEXT_H
#define CH_BASE_EMBEDDED_TEXT_H

typedef struct ch_embedded_text {
  const char *name;          /* name of the file, without its ending */
  const unsigned char *text; /* contents of the file, NUL-terminated */
} ch_embedded_text;

/* The tables of texts. The last row of each has no name. */
extern const ch_embedded_text ch_embedded_tasks[];   /* tasks/: the named tasks of `eval --task` */
extern const ch_embedded_text ch_embedded_ruler[];   /* tasks/ruler/: words and a text for tasks of RULER */
extern const ch_embedded_text ch_embedded_pytorch[]; /* formats/pytorch/: parts of exported models' code */

#endif
