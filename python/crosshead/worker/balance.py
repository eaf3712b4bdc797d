# mypy: ignore-errors
"""Balances the choices of experts and heads: by a loss that is added to the model's, or by biases that move."""

import torch

BIAS_STEP = 1e-3


class Balance:
    """The gates of a model, and the losses of the balance that the configuration asks for."""

    def __init__(self, model):
        # The code's configuration has Crosshead's keys, also where the run's own is that of a Hugging Face family.
        moe, attention = getattr(model.config, "moe", None) or {}, model.config.attention
        self.experts, self.heads, self.active = [], [], moe.get("active", 0)
        for name, module in model.named_modules():
            if name.endswith("mlp.gate") and hasattr(module, "moe"):
                self.experts.append(module)
            elif name.endswith("head_gate"):
                self.heads.append(module)
        aux = moe.get("balance", "aux") == "aux"
        self.of_experts = moe.get("aux_coefficient", 0.01) if aux else 0
        self.of_heads = attention.get("balance_coefficient", 0.01) * attention.get("active_heads", 0)
        self.moves = moe.get("balance") == "loss_free"
        self.by_size = moe.get("balance_update", "sign") == "rms"
        self.load = None

    def begin(self):
        if self.load is None:
            self.load = [torch.zeros(gate.weight.shape[0], device=gate.weight.device) for gate in self.experts]
        for load in self.load:  # in place, because a CUDA graph holds their addresses
            load.zero_()

    def term(self, sequences, text, all_sequences):
        """Returns the balance loss of the micro-batch that the model has just computed, `sequences` of all sequences of a step, or
        None. text [B]: the number of tokens of each sequence that are not padding; None without padding."""
        total = None
        for i, gate in enumerate(self.experts + self.heads):
            chosen, scores = (tensor.reshape(sequences, -1, tensor.shape[-1]) for tensor in gate.choices)
            places = torch.arange(chosen.shape[1], device=chosen.device)
            counted = (places < (chosen.shape[1] if text is None else text[:, None])).expand(chosen.shape[:2])
            if i < len(self.experts):
                self.load[i].scatter_add_(0, chosen.flatten(), counted[:, :, None].expand_as(chosen).flatten().float())
            coefficient = self.of_experts if i < len(self.experts) else self.of_heads
            total = self._add(total, coefficient, chosen, scores, counted)
        return None if total is None else total / all_sequences

    def forget_choices(self):
        """Frees what the last pass left in the gates: scores hold on to all tensors that a backward pass would read."""
        for gate in self.experts + self.heads:
            gate.choices = None

    @staticmethod
    def _add(total, coefficient, chosen, scores, counted):
        """Adds coefficient · E · Σ_e f_e P_e of each sequence (Switch Transformer, eqs. 4-6)."""
        if not coefficient:
            return total
        weight = (counted.to(scores.dtype) / counted.sum(1, keepdim=True).clamp(min=1))[:, :, None]
        hits = weight.expand_as(chosen) / chosen.shape[-1]
        shares = torch.zeros_like(scores[:, 0]).scatter_add(-1, chosen.flatten(1), hits.flatten(1))
        term = coefficient * scores.shape[-1] * (shares * (scores * weight).sum(1)).sum()
        return term if total is None else total + term

    @torch.no_grad()
    def end(self):
        """Moves the biases of loss-free balancing towards even loads."""
        for gate, load in zip(self.experts, self.load):
            if not self.moves:
                continue
            lack = load.sum() - load * load.shape[0]
            moved = lack / lack.square().mean().sqrt().clamp(min=1e-30) if self.by_size else lack.sign()
            gate.e_score_correction_bias += (BIAS_STEP * moved).to(gate.e_score_correction_bias.dtype)
