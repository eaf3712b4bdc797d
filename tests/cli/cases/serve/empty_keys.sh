printf '\n\n' >keys
crosshead serve $DATA/TinyStories-656K --port 0 --api-key-file keys
