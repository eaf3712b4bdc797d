/* The names that other programs give to tensors of a Vision Transformer. */
#ifndef CH_IO_TENSOR_NAMES_H
#define CH_IO_TENSOR_NAMES_H

enum { CH_TENSOR_NAME_SIZE = 160 };

/* Our name of a tensor of a Hugging Face Vision Transformer
   ("vit.encoder.layer.3.attention.attention.query.weight", or the newer
   "vit.layers.3.attention.q_proj.weight"), written to `buffer`; NULL when it is none. */
const char *ch_tensor_name_of_vit(const char *name, char buffer[CH_TENSOR_NAME_SIZE]);

#endif
