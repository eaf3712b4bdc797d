#!/usr/bin/env python3
"""Writes numpy_numbers.h: NumPy's results for the methods of compression on small matrices given by formulas.

    python3 tests/compress/numpy_numbers.py | clang-format >tests/compress/numpy_numbers.h

Everything follows the papers' own words and orientation (a weight [in, out] that inputs [tokens, in] are multiplied by),
and shares no code with src/compress. test_numpy.c fills a model with the same formulas.
"""
import numpy as np

LAYERS, WIDTH, ROWS, KEYS, HEADS, VOCABULARY, TOKENS = 4, 6, 8, 4, 2, 23, 400


def single(x):
    return np.asarray(x, dtype=np.float64).astype(np.float32).astype(np.float64)


def weight(layer, rows, which):
    """W_l [out, in] of the program's files."""
    a, b = np.meshgrid(np.arange(rows), np.arange(WIDTH), indexing="ij")
    return single(np.sin(1 + 3 * a + 5 * b * b + a * b + 0.7 * layer * (a + 1) + which) + 0.5 * np.cos(a - 2 * b + which))


def inputs(layer):
    """X [tokens, in] of the projections of a layer, when no block adds anything to the stream: the normalised embeddings."""
    ids = np.array([(t * 5 + t * t) % VOCABULARY for t in range(TOKENS)])
    i = np.arange(WIDTH)
    rows = np.array([single(np.sin(2 + 3 * v + (v + 2) * i)) for v in range(VOCABULARY)])
    x = rows[ids]
    x = x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + 1e-5)
    return x * single(1 + 0.2 * layer - 0.1 * i)


def truncated(m, rank):
    u, s, vt = np.linalg.svd(m, full_matrices=False)
    return u[:, :rank] @ np.diag(s[:rank]) @ vt[:rank]


def whitening(x):
    """S with S^T S = X^T X / tokens, the paper's upper Cholesky factor."""
    return np.linalg.cholesky(x.T @ x / len(x)).T


def svd_llm(layer, rank):
    s = whitening(inputs(layer))
    return (np.linalg.inv(s) @ truncated(s @ weight(layer, ROWS, 0).T, rank)).T


def matrix_pca(atoms):
    """MASA eq. 4: the eigenvectors of W W^T with W = [vec(W_1) ... vec(W_L)]; c_ls = tr(D_s^T W_l)."""
    w = np.stack([weight(l, ROWS, 0).T.reshape(-1) for l in range(LAYERS)], axis=1)
    values, vectors = np.linalg.eigh(w @ w.T)
    d = vectors[:, np.argsort(values)[::-1][:atoms]]
    c = d.T @ w
    return c, [(d @ c[:, l]).reshape(WIDTH, ROWS).T for l in range(LAYERS)]


def refined(layer, atoms, rank, whitened):
    """With the residual W_l - W'_l, of low rank after whitening (MASA, "Local Refinement")."""
    near = matrix_pca(atoms)[1][layer]
    s = whitening(inputs(layer)) if whitened else np.eye(WIDTH)
    return near + (np.linalg.inv(s) @ truncated(s @ (weight(layer, ROWS, 0) - near).T, rank)).T


def basis_sharing(layers, rank):
    """[W_1 W_2] of adjacent layers side by side, their inputs above each other (Basis Sharing, section 3)."""
    s = whitening(np.concatenate([inputs(l) for l in layers]))
    w = np.concatenate([weight(l, ROWS, 0).T for l in layers], axis=1)
    near = np.linalg.inv(s) @ truncated(s @ w, rank)
    return [near[:, k * ROWS:(k + 1) * ROWS].T for k in range(len(layers))]


def virtual_heads(layer, kept, whitened):
    """Every head a column (MEA eqs. 36 to 38); with inputs, every head's outputs on them."""
    heads = weight(layer, KEYS, 1).reshape(HEADS, KEYS // HEADS, WIDTH)
    s = whitening(inputs(layer)) if whitened else np.eye(WIDTH)
    columns = np.stack([(h @ s.T).reshape(-1) for h in heads], axis=1)
    near = truncated(columns, kept)
    back = [near[:, g].reshape(KEYS // HEADS, WIDTH) @ np.linalg.inv(s.T) for g in range(HEADS)]
    return np.concatenate(back)


def put(name, values, what):
    numbers = ", ".join("%.9g" % v for v in np.asarray(values).reshape(-1))
    print("/* %s */\nstatic const double %s[] = {%s};\n" % (what, name, numbers))


print("/* What NumPy finds; numpy_numbers.py wrote it and says how. */")
print("#ifndef CH_TESTS_NUMPY_NUMBERS_H\n#define CH_TESTS_NUMPY_NUMBERS_H\n")
put("numpy_autocorrelation", inputs(3).T @ inputs(3) / TOKENS, "E[x x^T] of layer 3, [6, 6].")
put("numpy_svd_llm", svd_llm(2, 2), "q_proj of layer 2 by whitened SVD of rank 2, [8, 6].")
put("numpy_coefficients", np.abs(matrix_pca(2)[0].T), "|c_ls| of two atoms, [4, 2].")
put("numpy_pca", refined(1, 2, 1, False), "q_proj of layer 1 of two atoms and a residual of rank 1, [8, 6].")
put("numpy_pca_whitened", refined(1, 2, 1, True), "The same with a whitened residual.")
put("numpy_basis", basis_sharing([2, 3], 2), "q_proj of layers 2 and 3 with a basis of rank 2, [2, 8, 6].")
put("numpy_heads", virtual_heads(1, 1, False), "k_proj of layer 1 from one component head, [4, 6].")
put("numpy_heads_whitened", virtual_heads(1, 1, True), "The same by the heads' outputs.")
print("#endif")
