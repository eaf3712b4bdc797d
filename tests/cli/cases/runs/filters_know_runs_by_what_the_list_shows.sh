#!/bin/bash
# Filters know runs by what the list shows; settings that differ between runs of one name have
# columns.
head -c 60000 $DATA/../../data/tinyshakespeare.txt >t.txt
head -c 50000 t.txt >u.txt
c() {
  crosshead compare --parametrization standard --mechanisms mha,gqa:2 --params 40k --vocab 300 --tokens 500 \
      --seq 16 --batch 4 --eval-tokens 64 "$@" >/dev/null 2>&1
}
c --data t.txt --out a
c --data u.txt --init fan_in --out b
crosshead runs
for f in mechanism=mha mechanism=gqa mechanism=gqa:2 mechanism!=mha mechanism=mqa name=mha 'mechanism~gq'; do
  echo "$f $(crosshead runs --json $f | grep -c '"id"')"
done
l=$(crosshead runs 1 | tail -1 | tr -s ' ' | cut -d' ' -f12)
echo "loss $(crosshead runs --json "loss>$l" 1 | grep -c '"id"')$(crosshead runs --json "training_loss>0" 1 | grep -c '"id"')"
crosshead runs 1 2
