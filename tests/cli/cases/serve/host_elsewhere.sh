crosshead serve $DATA/TinyStories-656K --host 192.0.2.1 --port 5
