# Finds LAPACK and BLAS with their C interfaces and defines LAPACKE::lapacke. (Which BLAS they are is the system's choice; on
# Debian the package libopenblas-pthread-dev makes it OpenBLAS.)
find_library(LAPACKE_LIBRARY lapacke)
find_library(LAPACK_LIBRARY lapack)
find_library(BLAS_LIBRARY blas)
find_path(LAPACKE_INCLUDE_DIR lapacke.h)
find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES ${CMAKE_LIBRARY_ARCHITECTURE})
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LAPACKE REQUIRED_VARS LAPACKE_LIBRARY LAPACK_LIBRARY BLAS_LIBRARY LAPACKE_INCLUDE_DIR CBLAS_INCLUDE_DIR)
mark_as_advanced(LAPACKE_LIBRARY LAPACK_LIBRARY BLAS_LIBRARY LAPACKE_INCLUDE_DIR CBLAS_INCLUDE_DIR)
if(LAPACKE_FOUND AND NOT TARGET LAPACKE::lapacke)
  add_library(LAPACKE::lapacke UNKNOWN IMPORTED)
  set_target_properties(LAPACKE::lapacke PROPERTIES IMPORTED_LOCATION ${LAPACKE_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES "${LAPACKE_INCLUDE_DIR};${CBLAS_INCLUDE_DIR}"
                        INTERFACE_LINK_LIBRARIES "${LAPACK_LIBRARY};${BLAS_LIBRARY}")
endif()
