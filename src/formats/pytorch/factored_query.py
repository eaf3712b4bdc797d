class FactoredQuery:
    """MFA's queries: many large heads Q_h S_q x from two factors, the first shared by all of them (MFA eq. 7)."""

    def add_factored_query(self):
        c = self.config
        rank = c.attention.get("q_lora_rank") or c.head_dim
        self.projection("q_a_proj", c.hidden_size, rank)
        if c.attention.get("q_a_norm"):
            self.norm("q_a_layernorm", rank)
        self.projection("q_b_proj", rank, c.num_attention_heads * c.head_dim)

    def factored_query(self, x):
        q = self.q_a_proj(x)
        if hasattr(self, "q_a_layernorm"):
            q = self.q_a_layernorm(q)
        return self.q_b_proj(q)


