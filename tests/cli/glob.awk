# Prints the lines of a file with those that a glob matches as the glob has them: awk -v glob=FILE.glob -f glob.awk OUTPUT
# The result is the glob itself where everything matches; `diff` against the glob shows what does not.
# In the glob, * is any text within a line, # a number, two or more blanks any number of blanks but none, and a line ...
# any number of lines.

function regex(line) {
  gsub(/[][\\.^$(){}|+?]/, "\\\\&", line)
  gsub(/\*/, ".*", line)
  gsub(/  +/, "  *", line)
  gsub(/#/, "[0-9][0-9.,e+-]*", line)
  return "^" line "$"
}

# Returns true if lines g to end - 1 of the glob match the output from line o on.
function matches(g, end, o) {
  for (; g < end; g++) {
    if (o > lines || output[o] !~ expression[g]) return 0
    o++
  }
  return 1
}

{ output[++lines] = $0 }

END {
  while ((getline line < glob) > 0) {
    globs[++count] = line
    expression[count] = regex(line)
  }
  next_line = 1
  for (g = 1; g <= count; g = end) { # one stretch of lines without "..." at a time
    gap = globs[g] == "..."
    if (gap) g++
    for (end = g; end <= count && globs[end] != "..."; end++) {}
    o = next_line
    if (gap && end > count && lines - (end - g) + 1 > o) o = lines - (end - g) + 1 # the last lines
    else if (gap) while (o <= lines && !matches(g, end, o)) o++
    if (!matches(g, end, o)) break
    if (gap) print "..."
    for (i = g; i < end; i++) print globs[i]
    next_line = o + end - g
  }
  for (; next_line <= lines; next_line++) print output[next_line]
}
