crosshead serve $DATA/TinyStories-656K --port 0 --cache-dtype int4
