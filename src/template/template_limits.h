/* Limits of templates: the descriptions of tasks are files from anywhere, and none may crash the program,
 * fill the memory or keep it busy for long. Real descriptions stay far below every limit. */
#ifndef CH_TEMPLATE_LIMITS_H
#define CH_TEMPLATE_LIMITS_H

enum {
  /* Limits of the text of a template, while it is parsed. */
  CH_TEMPLATE_ARGUMENTS = 64, /* values in brackets */
  CH_TEMPLATE_DEPTH = 64,     /* statements, brackets, "elif" and "not" inside each other */
  CH_TEMPLATE_HEIGHT = 256,   /* operators and filters that apply to each other's results: a tree's height */

  /* Limits of filling. */
  CH_TEMPLATE_FRAMES = 96,     /* loops and macros inside each other */
  CH_TEMPLATE_RECURSION = 512, /* statements, expressions and macros inside each other */

  /* Limits of the values that it makes. */
  CH_TEMPLATE_NESTING = 64,       /* lists inside each other */
  CH_TEMPLATE_TEXT = 64 << 20,    /* bytes of one text */
  CH_TEMPLATE_ELEMENTS = 1 << 20, /* of one list, those of the lists in it counted */
  CH_TEMPLATE_RANGE = 1 << 16,    /* elements of a range */
  CH_TEMPLATE_REGEXES = 64,       /* patterns that stay compiled between two fillings */

  /* Limits of filling it from one item. */
  CH_TEMPLATE_STEPS = 1 << 20,      /* expressions evaluated and statements run */
  CH_TEMPLATE_BYTES = 256 << 20,    /* of intermediate values that are created and read */
  CH_TEMPLATE_ELEMENT_BYTES = 64,   /* what an element of a list adds to these, besides its text */
  CH_TEMPLATE_REGEX_BYTES = 1 << 14 /* what compiling a pattern counts for */
};

#endif
