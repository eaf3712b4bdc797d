crosshead serve $DATA/TinyStories-656K --prefill-chunk 32
