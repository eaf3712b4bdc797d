/* Times MPI_Allreduce on F32, for comparison with `crosshead train`, which sums in the order of micro-batches. Usage:
 * mpirun -n N bench_allreduce MEGABYTES, with the size of a model's gradients. Prints the median of ten times. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 10 };

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  double megabytes = argc == 2 ? atof(argv[1]) : 0, seconds[ROUNDS];
  int rank, status = EXIT_FAILURE, count = (int)(megabytes * 1e6 / sizeof(float));
  float *sums = count > 0 ? calloc((size_t)count, sizeof *sums) : NULL;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; sums && i < ROUNDS; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, sums, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    seconds[i] = MPI_Wtime() - start;
  }
  if (sums) {
    qsort(seconds, ROUNDS, sizeof *seconds, by_size);
    if (rank == 0) printf("%.1f MB: %.4f s\n", megabytes, seconds[ROUNDS / 2]);
    status = EXIT_SUCCESS;
  } else if (rank == 0)
    fprintf(stderr, "usage: mpirun -n N bench_allreduce MEGABYTES\n");
  free(sums);
  MPI_Finalize();
  return status;
}
