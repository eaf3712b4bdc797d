crosshead serve
