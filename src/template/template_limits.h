/* Limits of templates. Templates are not trusted: none may crash the program, fill the memory or run for long. Real
 * templates are far below every limit. */
#ifndef CH_TEMPLATE_LIMITS_H
#define CH_TEMPLATE_LIMITS_H

enum {
  /* Limits of parsing. */
  CH_TEMPLATE_ARGUMENTS = 64, /* values in brackets */
  CH_TEMPLATE_DEPTH = 64,     /* nested statements, brackets, "elif", "not" and signs */
  CH_TEMPLATE_HEIGHT = 256,   /* height of a tree of expressions: operators and filters applied to results */

  /* Limits of filling. */
  CH_TEMPLATE_FRAMES = 96,     /* nested loops and macros */
  CH_TEMPLATE_RECURSION = 512, /* nested statements, expressions and macros */

  /* Limits of values. */
  CH_TEMPLATE_NESTING = 64,       /* nested lists */
  CH_TEMPLATE_TEXT = 64 << 20,    /* bytes of one text */
  CH_TEMPLATE_ELEMENTS = 1 << 20, /* elements of one list or object, including those nested in it */
  CH_TEMPLATE_RANGE = 1 << 16,    /* elements of a range */
  CH_TEMPLATE_REGEXES = 64,       /* patterns that stay compiled between two fillings */

  /* Limits of one filling. */
  CH_TEMPLATE_STEPS = 1 << 20,      /* expressions evaluated and statements run */
  CH_TEMPLATE_BYTES = 256 << 20,    /* bytes of intermediate values that are created and read */
  CH_TEMPLATE_ELEMENT_BYTES = 64,   /* bytes counted for an element of a list, in addition to its text */
  CH_TEMPLATE_REGEX_BYTES = 1 << 14 /* bytes counted for compiling a pattern */
};

#endif
