"""Computes Student's t and the model of the noise in differences of two runs: variances of pairs vary around a common one (a scaled inverse
chi-square with `weight` degrees of freedom)."""
import math

# The common variance counts for at most so many degrees of freedom, because the spread of pairs around it is itself uncertain.
MOST_WEIGHT = 6.0


def variance(values):
    mean = sum(values) / len(values)
    return sum((value - mean)**2 for value in values) / (len(values) - 1)


def beta_fraction(a, b, x):
    """Returns the continued fraction of the incomplete beta function (Lentz)."""
    tiny = 1e-300
    c, d = 1.0, 1.0 / max(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, 300):
        for step in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1 + step * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + step / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value


def upper_tail(t, df):
    """Returns P(T > t) of Student's t with df degrees of freedom."""
    a, b, x = df / 2, 0.5, df / (df + t * t)
    if x >= 1:
        return 0.5
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    both = front * beta_fraction(a, b, x) / a if x < (a + 1) / (a + b + 2) else 1 - front * beta_fraction(b, a, 1 - x) / b
    return both / 2 if t > 0 else 1 - both / 2


def quantile(tail, df):
    """Returns the t with P(T > t) = tail, for tail < 1/2."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if upper_tail(middle, df) > tail else (low, middle)
    return high


def digamma(x):
    value = 0.0
    while x < 8:
        value, x = value - 1 / x, x + 1
    return value + math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6)


def trigamma(x):
    value = 0.0
    while x < 8:
        value, x = value + 1 / x**2, x + 1
    return value + 1 / x + 1 / (2 * x**2) + 1 / (6 * x**3) - 1 / (30 * x**5) + 1 / (42 * x**7)


def fit_noise(variances):
    """Returns the common variance and its weight for [(variance, degrees of freedom)], by the moments of the logarithms (Smyth 2004, section 6.2)."""
    logs = [math.log(variance) - digamma(df / 2) + math.log(df / 2) for variance, df in variances if variance > 0]
    if len(logs) < 3:
        return None
    mean = sum(logs) / len(logs)
    excess = sum((each - mean)**2 for each in logs) / (len(logs) - 1) - sum(trigamma(df / 2) for variance, df in variances if variance > 0) / len(logs)
    if excess <= 1e-6:
        return math.exp(mean), MOST_WEIGHT
    low, high = 1e-3, 500.0  # trigamma falls
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if trigamma(middle) > excess else (low, middle)
    weight = 2 * high
    return math.exp(mean + digamma(weight / 2) - math.log(weight / 2)), min(weight, MOST_WEIGHT)
