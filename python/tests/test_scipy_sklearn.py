# SPDX-License-Identifier: MIT
"""SciPy and scikit-learn on tensors, by the array API: what they compute is a tensor with NumPy's numbers."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # read when SciPy is imported

import numpy as np
import pytest

import ebb

RNG = np.random.default_rng(0)
A, B, M = RNG.random(50) + 0.1, RNG.random(50) + 0.1, RNG.random((20, 4))
X = RNG.normal(size=(60, 5))
LABELS, SEEN = (X[:, 0] > 0).astype(np.int64), (X[:, 0] + X[:, 1] > 0).astype(np.int64)
TARGET = X @ RNG.normal(size=5) + 0.1 * RNG.normal(size=60)

# module: functions of A; functions of A and B; functions of the matrix M, along its first axis or as they do by themselves.
SCIPY_ONE = {
    "special": "expit erf erfc gammaln gamma psi i0 i1 i0e log_ndtr ndtr entr logsumexp softmax log_softmax",
    "stats": "ttest_1samp entropy kstat kstatvar circmean circvar circstd skewtest kurtosistest normaltest jarque_bera tmean "
    "tvar tstd tsem tmin tmax gzscore rankdata iqr lmoment chisquare power_divergence",
    "integrate": "trapezoid cumulative_simpson",
    "optimize": "rosen",
    "signal": "detrend",
}
SCIPY_TWO = {
    "special": "xlogy rel_entr chdtr gammainc",
    "stats": "ttest_ind ttest_rel pearsonr bartlett kruskal levene mannwhitneyu wilcoxon f_oneway zmap",
    "signal": "convolve",
}
SCIPY_MATRIX = {
    "stats": "zscore skew kurtosis moment gmean hmean variation sem directional_stats",
    "ndimage": "gaussian_filter sobel",
    "cluster.vq": "whiten",
}
MORE = {"ttest_1samp": (0.5,), "moment": (3,), "gaussian_filter": (1.0,)}

METRICS = {
    "labels": "accuracy_score balanced_accuracy_score zero_one_loss hamming_loss f1_score jaccard_score precision_score "
    "recall_score confusion_matrix cohen_kappa_score",
    "scores": "brier_score_loss log_loss roc_curve roc_auc_score average_precision_score precision_recall_curve det_curve",
    "numbers": "mean_absolute_error mean_squared_error root_mean_squared_error mean_squared_log_error median_absolute_error "
    "r2_score explained_variance_score max_error mean_absolute_percentage_error mean_pinball_loss mean_gamma_deviance "
    "mean_poisson_deviance mean_tweedie_deviance d2_tweedie_score d2_absolute_error_score",
    "pairs": "euclidean_distances cosine_similarity cosine_distances rbf_kernel polynomial_kernel sigmoid_kernel linear_kernel "
    "laplacian_kernel chi2_kernel manhattan_distances paired_euclidean_distances",
}


def parts(result):
    """Tensors, arrays and numbers of a result, in order."""
    if isinstance(result, (ebb.Tensor, np.ndarray, np.number, float, int)):
        return [result]
    fields = result if isinstance(result, (tuple, list)) else vars(result).values()
    return [p for r in fields if r is not None and not isinstance(r, (str, dict)) and not callable(r) for p in parts(r)]


def expect_the_same(call, *arrays, tensors=True):
    """call(*arrays) of tensors gives tensors (or numbers) with the values that arrays give."""
    with ebb.array_api.assignment():
        found = parts(call(*(ebb.asarray(a) for a in arrays)))
    wanted = parts(call(*arrays))
    assert len(found) == len(wanted) > 0
    assert not tensors or any(isinstance(f, ebb.Tensor) for f in found)
    for f, w in zip(found, wanted):
        np.testing.assert_allclose(np.asarray(f), np.asarray(w), rtol=1e-6, atol=1e-9)


def table(*groups):
    return [
        pytest.param(module, name, arrays, id=f"{module}.{name}")
        for names, arrays in groups
        for module, words in names.items()
        for name in words.split()
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module, name, arrays", table((SCIPY_ONE, (A,)), (SCIPY_TWO, (A, B)), (SCIPY_MATRIX, (M,))))
def test_scipy_computes_on_tensors(module, name, arrays):
    scipy = pytest.importorskip("scipy", minversion="1.15")
    pytest.importorskip(f"scipy.{module}")
    holder = scipy
    for part in module.split("."):
        holder = getattr(holder, part)
    expect_the_same(lambda *a: getattr(holder, name)(*a, *MORE.get(name, ())), *arrays)


@pytest.mark.filterwarnings("ignore")
def test_scipy_finds_roots_derivatives_and_integrals_of_functions_of_tensors():
    pytest.importorskip("scipy", minversion="1.15")
    elementwise = pytest.importorskip("scipy.optimize.elementwise")
    differentiate = pytest.importorskip("scipy.differentiate")
    integrate = pytest.importorskip("scipy.integrate")
    with ebb.array_api.assignment():
        zero, one = ebb.zeros(3, dtype="f64"), ebb.ones(3, dtype="f64")
        root = elementwise.find_root(lambda x: x * x - 0.5, (zero, one)).x
        slope = differentiate.derivative(lambda x: x * x * x, ebb.asarray(A)).df
        area = integrate.tanhsinh(lambda x: x * x, zero, one).integral
    for x in (root, slope, area):
        assert isinstance(x, ebb.Tensor)
    np.testing.assert_allclose(np.asarray(root), np.sqrt(0.5))
    np.testing.assert_allclose(np.asarray(slope), 3 * A * A, rtol=1e-8)
    np.testing.assert_allclose(np.asarray(area), 1 / 3)


@pytest.fixture
def dispatching():
    sklearn = pytest.importorskip("sklearn", minversion="1.6")
    pytest.importorskip("scipy")
    with sklearn.config_context(array_api_dispatch=True):
        yield sklearn


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind, name", [(kind, name) for kind, names in METRICS.items() for name in names.split()])
def test_metrics_of_tensors(dispatching, kind, name):
    from sklearn import metrics

    holder = metrics.pairwise if kind == "pairs" else metrics
    if not hasattr(holder, name):
        pytest.skip(f"this scikit-learn has no {name}")
    inputs = {
        "labels": (LABELS, SEEN),
        "scores": (LABELS, RNG.random(60)),
        "numbers": (A, A * 1.1 + 0.01),
        "pairs": (np.abs(X), np.abs(X) + 0.1),
    }[kind]
    expect_the_same(getattr(holder, name), *inputs, tensors=kind == "pairs")


def estimators():
    from sklearn import decomposition, discriminant_analysis, kernel_approximation, linear_model, naive_bayes, preprocessing

    return {
        "StandardScaler": preprocessing.StandardScaler(),
        "MinMaxScaler": preprocessing.MinMaxScaler(),
        "MaxAbsScaler": preprocessing.MaxAbsScaler(),
        "Normalizer": preprocessing.Normalizer(),
        "Binarizer": preprocessing.Binarizer(),
        "PolynomialFeatures": preprocessing.PolynomialFeatures(),
        "PCA": decomposition.PCA(2, svd_solver="full"),
        "PCA of the covariance": decomposition.PCA(2, svd_solver="covariance_eigh"),
        "LinearDiscriminantAnalysis": discriminant_analysis.LinearDiscriminantAnalysis(),
        "Ridge": linear_model.Ridge(solver="svd"),
        "RidgeCV": linear_model.RidgeCV(),
        "RidgeClassifier": linear_model.RidgeClassifier(solver="svd"),
        "LogisticRegression": linear_model.LogisticRegression(solver="lbfgs", tol=1e-8),
        "GaussianNB": naive_bayes.GaussianNB(),
        "Nystroem": kernel_approximation.Nystroem(n_components=10, random_state=0),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        *("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "Normalizer", "Binarizer", "PolynomialFeatures", "PCA"),
        *("PCA of the covariance", "LinearDiscriminantAnalysis", "Ridge", "RidgeCV", "RidgeClassifier"),
        *("LogisticRegression", "GaussianNB", "Nystroem"),
    ],
)
def test_estimators_learn_from_tensors(dispatching, name):
    from sklearn.base import is_classifier

    estimator = estimators()[name]

    def fit_and_use(x, y):
        estimator.fit(x, y)
        return (estimator.transform if hasattr(estimator, "transform") else estimator.predict)(x)

    before = X.copy()
    expect_the_same(fit_and_use, X, LABELS if is_classifier(estimator) else TARGET)
    np.testing.assert_array_equal(X, before)


def test_parts_of_data(dispatching):
    from sklearn.model_selection import cross_val_predict, train_test_split

    expect_the_same(lambda x, y: train_test_split(x, y, random_state=0), X, LABELS)
    from sklearn.linear_model import Ridge

    expect_the_same(lambda x, y: cross_val_predict(Ridge(solver="svd"), x, y, cv=3), X, TARGET, tensors=False)
