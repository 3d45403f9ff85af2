# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""JAX: a jitted two-layer network, ten calls."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax
import jax.numpy as jnp


@jax.jit
def mlp(x, w1, w2):
    return jnp.tanh(x @ w1) @ w2


k = jax.random.PRNGKey(0)
x = jax.random.normal(k, (128, 512))
w1 = jax.random.normal(k, (512, 2048))
w2 = jax.random.normal(k, (2048, 512))
for _ in range(10):
    y = mlp(x, w1, w2)
y.block_until_ready()
assert jnp.isfinite(y).all()
print("jax: ok")
