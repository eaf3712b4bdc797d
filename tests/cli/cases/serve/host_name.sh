crosshead serve $DATA/TinyStories-656K --host example.org
