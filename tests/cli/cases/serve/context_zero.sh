crosshead serve $DATA/TinyStories-656K --context 0
