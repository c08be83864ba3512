"""Error over the size of the dictionary, on scikit-learn's digits.

Figures 2 and 3 of the paper are the test error of the baseline and of DDL on USPS over the number of atoms (K) and the
number of atoms in a code (T), one panel a loss.  ``ddlearn reproduce usps`` makes them in half an hour.  Here is the
same on digits that need no file, with fewer sizes: a minute.  Every finished cell is kept in ``results``, so a
second run reads them; delete the folder to measure again.
"""

from ddlearn.experiments.usps_grid import choose, run_usps

if __name__ == "__main__":  # cells are measured in processes of their own
    records = run_usps("results/digits", dataset="digits", sizes=(50, 100, 200), budgets=(1, 2, 5), n_processes=-1)
    for method in ("baseline", "ddl"):
        for loss in ("square", "logistic"):
            print(f"{method:8} {loss:8} {choose(records, method, loss).describe()}")
    print("See results/digits/usps.md and usps_figure_3.png")
