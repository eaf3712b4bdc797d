/* Hugging Face's names of a Vision Transformer's tensors. */
#ifndef CH_IO_TENSOR_NAMES_H
#define CH_IO_TENSOR_NAMES_H

enum { CH_TENSOR_NAME_SIZE = 160 };

/* Returns Crosshead's name of a tensor of a Hugging Face Vision Transformer
   ("vit.encoder.layer.3.attention.attention.query.weight", or the newer "vit.layers.3.attention.q_proj.weight"): a
   constant, or `buffer`. Returns NULL for other names. */
const char *ch_tensor_name_of_vit(const char *name, char buffer[CH_TENSOR_NAME_SIZE]);

#endif
