#!/bin/bash
for i in 1 2 3 4 5 6 7 8 9; do
  awk -v i=$i 'BEGIN {printf "%d000,%.6f\n", i, 2 + 3 / sqrt(i)}'
done >plain.csv
(
  echo 'step,wall time,tokens,loss,validation_loss'
  awk -F, '{print NR ",1.5," $1 "," $2 "," $2 + 0.5}' plain.csv
) >named.csv
(
  echo '"","the loss, smooth","loss","tokens"'
  awk -F, '{print "\"" NR "\",9,\"" $2 "\"," $1 "\r"}' plain.csv
) >index.csv
(
  printf '\357\273\277tokens;val loss;loss\r\n'
  awk -F, '{print $1 ";;" $2 "\r"}' plain.csv
) >marked.csv
(
  printf '"tok\nens",Tokens,Loss\n'
  awk -F, '{print "\"a\n\"\"b\"\"\"," $1 "," $2}' plain.csv
) >lines.csv
tr , '\t' <plain.csv >tabs.csv
tr , ' ' <plain.csv >blanks.csv
for f in named index marked lines tabs blanks plain; do
  crosshead fit $f.csv --budget 1M
done | grep 'loss at' | sort | uniq -c
